package redisstore

import (
	"bytes"

	"github.com/weblimit/weblimit/core/redisstore/internal/script"
)

const slots = 16384

// slotOf returns the Cluster hash slot of a client key: CRC16 (XMODEM) of the
// hash tag of its Redis key, which is the prefix's if that has one. Redis
// Cluster specification, "Key distribution model".
func slotOf(prefix string, tag []byte) int {
	return slotOfKey(script.AppendKey(make([]byte, 0, 64), prefix, tag))
}

func slotOfKey(key []byte) int {
	if _, tagged, found := bytes.Cut(key, []byte("{")); found {
		if tag, _, closed := bytes.Cut(tagged, []byte("}")); closed && len(tag) > 0 {
			key = tag
		}
	}
	crc := uint16(0)
	for _, b := range key {
		crc = crc<<8 ^ crc16[byte(crc>>8)^b]
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
