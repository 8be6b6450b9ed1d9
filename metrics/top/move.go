package top

// move moves what was counted under another secret, which chose other places and other samples. New
// requests are already counted in to. Lost is what a request counts in from after its shard has
// been read: requests that were being counted when the secret changed.
func (t *Tracker) move(from, to *state) {
	now := tick(t.clock.Load())
	to.uncounted.Add(from.uncounted.Load())
	for _, old := range *from.limits.Load() {
		if l := to.limit(old.id, old.name); l != nil {
			l.take(old, to.secret, now)
		} else if l := t.add(to, old.id, old.name); l != nil {
			l.take(old, to.secret, now)
		}
	}
}

// moved is what one shard has counted.
type moved struct {
	hashes  []uint64
	entries []entry
	sample  sample

	versions versions
}

// takeAll returns copies of what the shards have counted. Only one shard is locked at a time.
func (l *limit) takeAll() (all [shards]moved) {
	for i := range l.shards {
		s, m := &l.shards[i], &all[i]
		s.mu.Lock()
		for j := range s.table.sets {
			set := &s.table.sets[j]
			for k, hash := range set.hashes {
				if hash != 0 {
					e := set.entries[k]
					e.key = append([]byte(nil), e.key...)
					m.hashes, m.entries = append(m.hashes, hash), append(m.entries, e)
				}
			}
		}
		m.versions = s.versions
		m.sample = s.sample
		m.sample.places = append([]sampled(nil), m.sample.places...)
		s.mu.Unlock()
	}
	return all
}

// take adds what another limit has counted under another secret. It copies from old, so that no lock of old is held together
// with one of l.
func (l *limit) take(old *limit, secret secret, now tick) {
	old.settle(now)
	all := old.takeAll()
	hashes := make(map[uint64]uint64) // from old ones to new ones
	for i := range all {
		for j := range all[i].entries {
			e := &all[i].entries[j]
			hash := max(secret.hash(e.key), 1)
			hashes[all[i].hashes[j]] = hash
			s := &l.shards[hash%shards]
			s.mu.Lock()
			e.denial.version = s.versions.number(all[i].versions.of(e.denial.version))
			s.table.take(hash, e, now)
			s.mu.Unlock()
		}
	}
	if wholeSample(&all, hashes) {
		for i := range all {
			for _, c := range all[i].sample.places {
				if c.hash != 0 {
					c.hash = hashes[c.hash]
					s := &l.shards[c.hash%shards]
					s.mu.Lock()
					s.sample.take(c, all[i].sample.period)
					s.mu.Unlock()
				}
			}
		}
	}
	old.mu.Lock()
	rates, rule, mode, last := old.rates, old.rule, old.mode, old.last
	old.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rates.seconds.take(&rates.seconds)
	l.rates.minutes.take(&rates.minutes)
	if l.rule == nil {
		l.rule, l.mode, l.last = rule, mode, last
	}
}

// wholeSample reports whether the new hash of each client is known, and all clients are in the sample.
// A part of them would be the busiest ones, which are in the table: quantiles would be too high.
func wholeSample(all *[shards]moved, hashes map[uint64]uint64) bool {
	for i := range all {
		if all[i].sample.level > 0 {
			return false
		}
		for _, c := range all[i].sample.places {
			if _, known := hashes[c.hash]; c.hash != 0 && !known {
				return false
			}
		}
	}
	return true
}

// take adds a client of another table.
func (t *table) take(hash uint64, from *entry, now tick) {
	from.roll(now)
	e := t.find(hash, from.key)
	if e == nil {
		share, denials := max(from.used[0].share, from.used[1].share), from.hour.recent()
		if e = t.admit(hash, from.key, now, share, denials > 0); e == nil {
			return
		}
		e.roll(now)
	}
	e.roll(now)
	e.strength = uint32(min(uint64(e.faded(now))+uint64(from.faded(now)), 1<<31))
	e.fadedAt = uint32(now / fadeStep)
	e.minute.take(&from.minute)
	e.hour.take(&from.hour)
	for i := range e.used {
		if from.used[i].share > e.used[i].share {
			e.used[i] = from.used[i]
		}
	}
	e.seen = max(e.seen, from.seen)
	if from.denial.at > e.denial.at {
		e.denial = from.denial
	}
}

// take adds another window of the same time. Both are rolled.
func (w *window) take(from *window) {
	if w.index != from.index {
		return // a clock was set back
	}
	for kind := range w.now {
		w.now[kind] += from.now[kind]
		w.before[kind] += from.before[kind]
	}
}

// take adds a client of another sample, which was noted in a period.
func (s *sample) take(from sampled, period uint32) {
	if s.places == nil {
		s.places, s.period = make([]sampled, 2*sampleSize), period
	}
	at := s.place(from.hash)
	switch c := &s.places[at]; {
	case s.period != period:
	case c.hash != 0:
		if c.index == from.index {
			c.use += from.use
		}
		c.peaks = [2]int64{max(c.peaks[0], from.peaks[0], c.use), max(c.peaks[1], from.peaks[1])}
	case s.count == sampleSize:
		if s.narrow(); s.holds(from.hash) {
			s.take(from, period)
		}
	case s.holds(from.hash):
		*c = from
		s.count++
	}
}

// take adds the steps of another ring, of which none is later.
func (r *ring) take(from *ring) {
	if r.first == 0 {
		*r = *from
		return
	}
	if from.first == 0 {
		return
	}
	for i := max(from.first, from.last-seriesSteps, r.last-seriesSteps); i <= min(from.last, r.last); i++ {
		at := i % int64(len(r.steps))
		for kind := range r.steps[at] {
			r.steps[at][kind] += from.steps[at][kind]
		}
	}
	r.first = min(r.first, from.first)
}
