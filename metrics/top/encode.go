package top

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// The encoding of a snapshot. Numbers are varints, unsigned where they can't be negative. A
// text has its length before it. Times are the tenths of a second from the time to the
// snapshot's, plus one; 0 is no time.
//
//	snapshot   version 2, or 3 if a denial has a standing | uncounted | instances | limits
//	instances  number | name, milliseconds since the epoch, health, versions | …     the first is what times are relative to
//	versions   number | text | …
//	health     see Health.append
//	limits     number | limit | …
//	limit      name | algorithm | quota | burst | nanoseconds of the window | flags
//	           | what its keys are made of, and were before, if the flags say so | versions | numbers | clients | seconds | minutes | use
//	clients    number | client | …
//	client     key | minute: requests, denied, would deny | hour: the same
//	           | used, in millionths | when | seen | denial
//	denial     reason, 0 for none | shadow | when | cost | remaining | quota | burst | window | retry after | version
//	           | standing | share                                              both in version 3 only
//	series     number | steps since the epoch | allowed, denied, would deny | …
//	use        level | group | window | number | difference to the last id, size | …
const (
	encodingVersion = 2 // which older releases read
	sharesVersion   = 3
)

const (
	// maxPublished is how many bytes a published snapshot has at most. Redis stores them for
	// each instance, every few seconds.
	maxPublished = 64 << 10

	// maxEncoded is how many bytes are decoded at most.
	maxEncoded = 1 << 20

	// maxSampled is how many clients of a limit's sample are published.
	maxSampled = 1024

	maxKey = 256 // bytes of a key; keyfuncs makes no longer ones

	millionths = 1_000_000
)

const (
	flagShadow = 1 << iota
	flagMost
	flagKeys
	flagBefore
)

const (
	// maxKinds is how many bytes the text of what a limit's keys are made of has at most. A longer one is
	// left out.
	maxKinds = 256

	maxBefore = 4 // such texts of what they were made of before
)

// MarshalBinary encodes the snapshot. The encoding has a version: later releases read it,
// and an older one that can't says so.
func (s *Snapshot) MarshalBinary() ([]byte, error) {
	if len(s.Instances) == 0 {
		return nil, errors.New("weblimit: a snapshot without an instance can't be encoded")
	}
	data := s.append(nil)
	if len(data) > maxEncoded {
		return nil, fmt.Errorf("weblimit: a snapshot of %d bytes is too large, at most %d can be decoded", len(data), maxEncoded)
	}
	return data, nil
}

// marshalWithin encodes as much of the snapshot of one process as fits into some bytes: with
// shorter lists and smaller samples where it must, and then without the limits that come last.
func (s *Snapshot) marshalWithin(most int) []byte {
	longest := 1 // how many clients a limit has
	for i := range s.Limits {
		longest = max(longest, len(s.Limits[i].Clients))
	}
	for share := 1.0; ; {
		data := s.append(nil)
		if len(data) <= most || len(s.Limits) == 0 {
			return data
		}
		// Lists overlap, so this leaves out too few or too many. It never takes many rounds.
		share *= min(0.9*float64(most)/float64(len(data)), 0.9)
		n := int(share * float64(longest) / 2)
		if n == 0 {
			s.Limits = s.Limits[:len(s.Limits)/2]
		}
		for i := range s.Limits {
			s.Limits[i].Clients = s.Limits[i].listed(max(n, 1))
			s.Limits[i].Use.narrow(int(share * maxSampled))
		}
	}
}

func (s *Snapshot) append(dst []byte) []byte {
	base := tickOf(s.Instances[0].At)
	shares := s.hasShares()
	if shares {
		dst = append(dst, sharesVersion)
	} else {
		dst = append(dst, encodingVersion)
	}
	dst = appendCount(dst, s.Uncounted)
	dst = binary.AppendUvarint(dst, uint64(len(s.Instances)))
	for _, i := range s.Instances {
		dst = appendText(dst, i.Name)
		dst = appendCount(dst, i.At.UnixMilli())
		dst = i.Health.append(dst)
		dst = appendVersions(dst, i.Versions)
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.Limits)))
	for i := range s.Limits {
		dst = s.Limits[i].append(dst, base, shares)
	}
	return dst
}

// hasShares reports whether a client was denied by a limit that clients divide.
func (s *Snapshot) hasShares() bool {
	for i := range s.Limits {
		for k := range s.Limits[i].Clients {
			if s.Limits[i].Clients[k].Denial.Standing != store.Undivided {
				return true
			}
		}
	}
	return false
}

func (l *Limit) append(dst []byte, base tick, shares bool) []byte {
	dst = appendText(dst, l.Name)
	dst = append(dst, byte(l.Algorithm))
	dst = appendCount(dst, l.Quota)
	dst = appendCount(dst, l.Burst)
	dst = appendCount(dst, int64(l.Window))
	flags := byte(0)
	if l.Shadow {
		flags |= flagShadow
	}
	if l.Use.most {
		flags |= flagMost
	}
	if l.Keys != "" {
		flags |= flagKeys
	}
	if len(l.KeysBefore) > 0 {
		flags |= flagBefore
	}
	dst = append(dst, flags)
	if l.Keys != "" {
		dst = appendText(dst, l.Keys)
	}
	if len(l.KeysBefore) > 0 {
		dst = binary.AppendUvarint(dst, uint64(len(l.KeysBefore)))
		for _, kinds := range l.KeysBefore {
			dst = appendText(dst, kinds)
		}
	}
	dst = appendVersions(dst, l.Versions)
	dst = appendNumbers(dst, l.Name, &l.Numbers)
	dst = binary.AppendUvarint(dst, uint64(len(l.Clients)))
	for i := range l.Clients {
		dst = l.Clients[i].append(dst, base, shares)
	}
	dst = l.Rates.Seconds.append(dst, secondsStep)
	dst = l.Rates.Minutes.append(dst, minutesStep)
	return l.Use.append(dst)
}

func (c *Client) append(dst []byte, base tick, shares bool) []byte {
	dst = appendText(dst, c.Key)
	for _, counts := range [...]Counts{c.Minute, c.Hour} {
		dst = appendCount(dst, counts.Requests)
		dst = appendCount(dst, counts.Denied)
		dst = appendCount(dst, counts.WouldDeny)
	}
	dst = binary.AppendUvarint(dst, uint64(math.Round(min(max(c.Used, 0), 1)*millionths)))
	dst = appendTime(dst, c.UsedAt, base)
	dst = appendTime(dst, c.Seen, base)
	return c.Denial.append(dst, base, shares)
}

func (d *Denial) append(dst []byte, base tick, shares bool) []byte {
	dst = append(dst, byte(d.Reason))
	if d.Reason == core.ReasonUndecided {
		return dst
	}
	shadow := byte(0)
	if d.Shadow {
		shadow = 1
	}
	dst = append(dst, shadow)
	dst = appendTime(dst, d.At, base)
	for _, n := range [...]int64{d.Cost, d.Remaining, d.Quota, d.Burst, int64(d.Window), int64(d.RetryAfter)} {
		dst = appendCount(dst, n)
	}
	dst = appendText(dst, d.Version)
	if shares {
		dst = appendCount(append(dst, byte(d.Standing)), d.Share)
	}
	return dst
}

func appendVersions(dst []byte, versions []string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(versions)))
	for _, version := range versions {
		dst = appendText(dst, version)
	}
	return dst
}

func (s *Series) append(dst []byte, step tick) []byte {
	n := len(s.Allowed)
	dst = binary.AppendUvarint(dst, uint64(n))
	if n == 0 {
		return dst
	}
	dst = appendCount(dst, int64(tickOf(s.Start)/step))
	for i := range n {
		dst = appendCount(dst, s.Allowed[i])
		dst = appendCount(dst, s.Denied[i])
		dst = appendCount(dst, s.WouldDeny[i])
	}
	return dst
}

func (u *Use) append(dst []byte) []byte {
	dst = append(dst, u.level)
	dst = binary.LittleEndian.AppendUint64(dst, u.group)
	dst = appendCount(dst, int64(u.Window))
	dst = binary.AppendUvarint(dst, uint64(len(u.ids)))
	last := uint64(0)
	for i, id := range u.ids {
		dst = binary.AppendUvarint(dst, id-last)
		dst = appendCount(dst, u.sizes[i])
		last = id
	}
	return dst
}

// appendCount appends a number that is not negative, or 0.
func appendCount(dst []byte, n int64) []byte {
	return binary.AppendUvarint(dst, uint64(max(n, 0)))
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// appendTime appends a time that is before base, if clocks went on.
func appendTime(dst []byte, t time.Time, base tick) []byte {
	if t.IsZero() {
		return binary.AppendUvarint(dst, 0)
	}
	return binary.AppendUvarint(dst, uint64(max(base-tickOf(t), 0))+1)
}
