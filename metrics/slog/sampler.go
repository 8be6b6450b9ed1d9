package weblimitslog

import (
	"sync"
	"time"
)

// sampler says which denials of one limit get a line, and counts the others.
type sampler struct {
	every time.Duration
	write func(suppressed int64) // a line for denials that no other line has counted

	mu         sync.Mutex
	next       time.Time // when another line may be written. Guarded by mu.
	suppressed int64     // since the last line. Guarded by mu.
	waiting    bool      // a timer will look whether a line has come. Guarded by mu.
}

// denied notes a denial. If it is to have a line, it returns true and how many had none before.
func (s *sampler) denied() (suppressed int64, written bool) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Before(s.next) {
		s.suppressed++
		s.wait(now)
		return 0, false
	}
	return s.takeLine(now), true
}

// takeLine begins a new line. mu is held.
func (s *sampler) takeLine(now time.Time) (suppressed int64) {
	suppressed, s.suppressed = s.suppressed, 0
	s.next = now.Add(s.every)
	return suppressed
}

// wait starts the timer, unless it runs: the next denial has until then to bring a line. mu is held.
func (s *sampler) wait(now time.Time) {
	if !s.waiting {
		s.waiting = true
		time.AfterFunc(s.next.Add(s.every).Sub(now), s.look)
	}
}

// look writes what no denial has brought a line for. It runs in a goroutine of its own, where a
// panic would end the process.
func (s *sampler) look() {
	now := time.Now()
	s.mu.Lock()
	s.waiting = false
	switch {
	case s.suppressed == 0:
		s.mu.Unlock()
		return
	case now.Before(s.next.Add(s.every)): // a line has been written meanwhile
		s.wait(now)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	defer func() { _ = recover() }() // flush keeps the number; requests report what panics
	s.flush()
}

// flush writes what is suppressed now, if anything.
func (s *sampler) flush() {
	s.mu.Lock()
	n := s.suppressed
	if n > 0 {
		s.takeLine(time.Now())
	}
	s.mu.Unlock()
	if n == 0 {
		return
	}
	defer s.unlessDone(n)()
	s.write(n)
}

// unlessDone returns a function to defer around writing a line. If it panics, its denials
// are not lost.
func (s *sampler) unlessDone(denials int64) func() {
	return func() {
		if p := recover(); p != nil {
			s.mu.Lock()
			s.suppressed += denials
			s.mu.Unlock()
			panic(p)
		}
	}
}
