package redisstore

import (
	"context"
	"errors"
	"testing"
	"time"
)

type valueKey struct{}

// Package context starts a goroutine for each context that is derived from one that it did not make, as a
// dialer does. When the time is up, the goroutine asks for the cause, which can be after the round trip has ended.
func TestTheContextOfARoundTripThatTookTooLongCanBeAskedLater(t *testing.T) {
	t.Parallel()
	b := &batch{}
	ctx := context.WithValue(t.Context(), valueKey{}, "v")
	for range 3 {
		io := b.contextUntil(ctx, time.Now(), 0)
		<-io.Done()
		b.endContext()
		if err := context.Cause(io); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended by %v", err)
		}
		if got := io.Value(valueKey{}); got != "v" {
			t.Errorf("its value is %v", got)
		}
	}
}

// A process that was stopped before it has sent anything asks its context first, and is not to find it over.
func TestTheContextOfARoundTripThatBeginsLateIsNotOver(t *testing.T) {
	t.Parallel()
	b := &batch{}
	began := time.Now()
	io := b.contextUntil(t.Context(), began.Add(-time.Second), 0) // the timer fires a second late
	<-io.Done()
	if took := time.Since(began); took < maxExtension {
		t.Errorf("over after %v, want %v or more", took, maxExtension)
	}
	b.endContext()
}

func TestContextsDerivedFromRoundTripsThatTakeTooLong(t *testing.T) {
	t.Parallel()
	for range 2000 {
		b := &batch{}
		child, cancel := context.WithCancel(b.contextUntil(t.Context(), time.Now(), time.Microsecond))
		<-child.Done()
		b.endContext()
		cancel()
	}
	b := &batch{}
	for range 2000 { // in time: the next round trip has the same context
		child, cancel := context.WithCancel(b.contextUntil(t.Context(), time.Now(), time.Minute))
		cancel()
		b.endContext()
		<-child.Done()
	}
}

// A dialer has a deadline of its own. If that has passed, the goroutine of its timer may ask for a value
// after the dialer has returned, when the round trip has ended and its batch begins the next.
func TestTheContextOfARoundTripThatADialerHadCanBeAskedLater(t *testing.T) {
	t.Parallel()
	b := &batch{}
	ctx := context.WithValue(t.Context(), valueKey{}, "v")
	io := b.contextUntil(ctx, time.Now().Add(time.Minute), time.Minute)
	child, cancel := context.WithTimeout(io, time.Microsecond)
	<-child.Done()
	cancel()
	b.endContext()
	if got := io.Value(valueKey{}); got != "v" {
		t.Errorf("its value is %v", got)
	}
	next := b.contextUntil(t.Context(), time.Now().Add(time.Minute), time.Minute)
	if got := io.Value(valueKey{}); next == io || got != "v" {
		t.Errorf("its value is %v in the next round trip", got)
	}
	b.endContext()
}

// A context that nobody has derived one from is kept.
func TestTheContextOfARoundTripIsUsedAgain(t *testing.T) {
	t.Parallel()
	b := &batch{}
	first := b.contextUntil(t.Context(), time.Now().Add(time.Minute), time.Minute)
	b.endContext()
	if again := b.contextUntil(t.Context(), time.Now().Add(time.Minute), time.Minute); again != first {
		t.Error("another context")
	}
	b.endContext()
}
