package codec

// splitMix is the first output of SplitMix64 (Steele, Lea and Flood, 2014) for a
// seed. No two seeds have the same.
func splitMix(seed uint64) uint64 {
	z := seed + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// unmix is the seed that splitMix makes z of: its steps backwards, each undone, with
// the factors' inverses modulo 2^64.
func unmix(z uint64) uint64 {
	z = (z ^ z>>31 ^ z>>62) * 0x319642b2d24d8ec3
	z = (z ^ z>>27 ^ z>>54) * 0x96de1b173f119089
	return (z ^ z>>30 ^ z>>60) - 0x9e3779b97f4a7c15
}

// mixAll puts splitMix of each seed into mixed, which is as long.
func mixAll(seeds, mixed []uint64) {
	mixed = mixed[:len(seeds)]
	for i := mixWide(seeds, mixed); i < len(seeds); i++ {
		mixed[i] = splitMix(seeds[i])
	}
}

// unmixAll puts unmix of each of mixed into seeds, which is as long.
func unmixAll(mixed, seeds []uint64) {
	seeds = seeds[:len(mixed)]
	for i := unmixWide(mixed, seeds); i < len(mixed); i++ {
		seeds[i] = unmix(mixed[i])
	}
}
