package top

import (
	"errors"
	"fmt"
	"time"
)

const (
	// maxTogether bounds the memory of all snapshots that are read at a time. Those of a hundred busy
	// instances take 70 MB.
	maxTogether = 512 << 20

	// What a clock of an instance may be ahead, and behind with the age of its snapshot, before its times
	// are moved.
	maxAhead  = maxLag
	maxBehind = maxLag + lifetime*time.Minute
)

// Published decodes what instances have published, as an [Exchange] has collected it. now is by the clock
// of this process: times of an instance whose clock is off by minutes are moved, but for Instance.At,
// so that they neither hide those of others nor lie in the future.
//
// What no instance publishes is left out, and told by the error: snapshots above 64 KB, of no instance or
// several, a second one of an instance, and what is beyond half a gigabyte in memory.
func Published(data [][]byte, now time.Time) (snapshots []*Snapshot, err error) {
	return publishedWithin(data, now, maxTogether)
}

// publishedWithin is Published of snapshots that take so many bytes of memory.
func publishedWithin(data [][]byte, now time.Time, left int) (snapshots []*Snapshot, err error) {
	names := make(map[string]bool, len(data))
	for i, each := range data {
		s := new(Snapshot)
		if broken := s.unmarshalPublished(each); broken != nil {
			err = joined(err, broken)
			continue
		}
		from := &s.Instances[0]
		if names[from.Name] {
			err = joined(err, fmt.Errorf("weblimit: two snapshots of the instance %s", from.Name))
			continue
		}
		names[from.Name] = true
		if left -= s.weight(); left < 0 {
			return snapshots, joined(err, fmt.Errorf("weblimit: %d of %d snapshots are not read: they take too much memory", len(data)-i, len(data)))
		}
		if off := now.Sub(from.At); off < -maxAhead || off > maxBehind {
			s.move(off)
		}
		snapshots = append(snapshots, s)
	}
	return snapshots, err
}

// joined joins the first few errors: what somebody else has written can have a thousand.
func joined(err, next error) error {
	const most = 1 << 10
	if err != nil && len(err.Error()) > most {
		return err
	}
	return errors.Join(err, next)
}

func (s *Snapshot) unmarshalPublished(data []byte) error {
	if len(data) > maxPublished {
		return fmt.Errorf("weblimit: a snapshot of %d bytes, and at most %d are published", len(data), maxPublished)
	}
	if err := s.UnmarshalBinary(data); err != nil {
		return err
	}
	if len(s.Instances) != 1 {
		return fmt.Errorf("weblimit: a snapshot of %d instances", len(s.Instances))
	}
	return nil
}

// weight returns about how many bytes of memory a snapshot takes.
func (s *Snapshot) weight() int {
	n := 0
	for i := range s.Limits {
		l := &s.Limits[i]
		n += 1000 + 400*len(l.Clients) + 24*(len(l.Rates.Seconds.Allowed)+len(l.Rates.Minutes.Allowed)) + 24*len(l.Use.ids)
	}
	return n
}

// move moves all times but those at which snapshots were taken.
func (s *Snapshot) move(by time.Duration) {
	at := func(t *time.Time) {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
	for i := range s.Instances {
		h := &s.Instances[i].Health
		at(&h.Since)
		for k := range h.Open {
			at(&h.Open[k].Since)
		}
	}
	for i := range s.Limits {
		l := &s.Limits[i]
		for k := range l.Clients {
			c := &l.Clients[k]
			at(&c.UsedAt)
			at(&c.Seen)
			at(&c.Denial.At)
		}
		for _, series := range []*Series{&l.Rates.Seconds, &l.Rates.Minutes} {
			if !series.Start.IsZero() { // in whole steps, which all instances share
				series.Start = series.Start.Add(by.Round(series.Step))
			}
		}
	}
}
