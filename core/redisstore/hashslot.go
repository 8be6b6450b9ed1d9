package redisstore

// Hash slots of a Redis Cluster: Redis Cluster specification, "Key distribution
// model". In this package, "slot" means a hash slot, or what stands for one on other
// topologies; see route.

import (
	"bytes"

	"github.com/weblimit/weblimit/core/redisstore/internal/script"
)

const hashSlots = 16384

// hashSlot returns the hash slot of a client key's Redis key.
func hashSlot(prefix string, clientKey []byte) int {
	return hashSlotOfKey(script.AppendKey(make([]byte, 0, 64), prefix, clientKey))
}

// hashSlotOfKey returns the hash slot of a Redis key: CRC16 (XMODEM) of its hash tag,
// or of all of it. A hash tag in the prefix comes before that of the client key.
func hashSlotOfKey(key []byte) int {
	if _, tagged, found := bytes.Cut(key, []byte("{")); found {
		if tag, _, closed := bytes.Cut(tagged, []byte("}")); closed && len(tag) > 0 {
			key = tag
		}
	}
	crc := uint16(0)
	for _, b := range key {
		crc = crc<<8 ^ crc16[byte(crc>>8)^b]
	}
	return int(crc) % hashSlots
}

// crc16 is the table of the polynomial 0x1021.
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
