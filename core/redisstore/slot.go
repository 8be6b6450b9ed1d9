package redisstore

import "strings"

const slots = 16384

// slotOf returns the Cluster hash slot of a key: CRC16 (XMODEM) of its hash tag,
// or of the whole key if it has none. Redis Cluster specification, "Key
// distribution model".
func slotOf(key string) int {
	if _, tagged, found := strings.Cut(key, "{"); found {
		if tag, _, closed := strings.Cut(tagged, "}"); closed && tag != "" {
			key = tag
		}
	}
	crc := uint16(0)
	for i := range len(key) {
		crc = crc<<8 ^ crc16[byte(crc>>8)^key[i]]
	}
	return int(crc) % slots
}

var crc16 = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()
