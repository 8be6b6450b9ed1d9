package top

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"time"
)

// Config holds the settings of a [Tracker]. Its zero value suits most users of one process.
type Config struct {
	// Exchange is how instances see each other's counts: redisstore.Store.Exchange. Without
	// one, Collect returns those of this process. Defaults to nil.
	Exchange Exchange

	// Instance is the name of this process among all: 1 to 64 letters, digits and . _ - of
	// ASCII. Two processes must not have the same. Defaults to the name of the host and
	// some random digits.
	Instance string

	// Interval is the time between two snapshots that are published. New panics if it is
	// below 1s or above 1m. Defaults to 5s.
	Interval time.Duration

	// Clients is how many clients each list of a limit has in a published snapshot. If it
	// exceeds what may be published, there are fewer. New panics if it is below 0 or above
	// 1,000. Defaults to 100.
	Clients int

	// Capacity is how many clients a process remembers per limit, a power of two from 256
	// to 65,536. A client takes some 300 bytes, and its key. Defaults to 2,048.
	Capacity int

	// Limits is how many limits are counted at most. Further ones are not, and
	// Snapshot.Uncounted says so. One that has decided nothing for two hours makes room for another. New panics if it is below 0 or above 4,096. Defaults to 128.
	Limits int
}

// validate returns the config with its defaults filled in. It panics if a value makes no sense.
func (c Config) validate() Config {
	c.Interval = cmp.Or(c.Interval, 5*time.Second)
	c.Clients = cmp.Or(c.Clients, 100)
	c.Capacity = cmp.Or(c.Capacity, 2048)
	c.Limits = cmp.Or(c.Limits, 128)
	if c.Instance == "" {
		c.Instance = newInstance()
	}
	switch {
	case !isName(c.Instance):
		panic(fmt.Sprintf("weblimit: top.Config: Instance must be 1 to 64 letters, digits and . _ -, got %q", c.Instance))
	case c.Interval < time.Second || c.Interval > time.Minute:
		panic(fmt.Sprintf("weblimit: top.Config: Interval must be from 1s to 1m, got %v", c.Interval))
	case c.Clients < 0 || c.Clients > maxClients:
		panic(fmt.Sprintf("weblimit: top.Config: Clients must be from 1 to %d, got %d", maxClients, c.Clients))
	case c.Capacity < minCapacity || c.Capacity > maxCapacity || c.Capacity&(c.Capacity-1) != 0:
		panic(fmt.Sprintf("weblimit: top.Config: Capacity must be a power of two from %d to %d, got %d", minCapacity, maxCapacity, c.Capacity))
	case c.Limits < 0 || c.Limits > maxLimits:
		panic(fmt.Sprintf("weblimit: top.Config: Limits must be from 1 to %d, got %d", maxLimits, c.Limits))
	}
	return c
}

const (
	maxClients  = 1000
	minCapacity = 256
	maxCapacity = 1 << 16
	maxLimits   = 4096
)

// isName reports whether s can name an instance, or a limit: see core.Limit.Named.
func isName(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		if !isNameByte(s[i]) {
			return false
		}
	}
	return true
}

func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
}

// newInstance returns a name for this process: that of the host, and random digits, since hosts
// may run several.
func newInstance() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	name := strings.Map(func(r rune) rune {
		if r < 0x80 && isNameByte(byte(r)) {
			return r
		}
		return '-'
	}, host)
	var digits [4]byte
	_, _ = rand.Read(digits[:]) // never fails
	return name[:min(len(name), 48)] + "-" + hex.EncodeToString(digits[:])
}
