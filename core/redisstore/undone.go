package redisstore

// Which checks of a call that failed have certainly changed nothing, so that they can be
// sent again.

import (
	"errors"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/store"
)

// undone returns the error of a call, with the checks of those of its jobs that Redis has
// certainly not run.
func undone(js []*job, err error) error {
	if err == nil {
		return nil
	}
	var checks []int
	for _, j := range js {
		if !j.isUndone() {
			continue
		}
		for _, i := range j.Checks {
			if i >= 0 { // else a penalty or a hold
				checks = append(checks, i)
			}
		}
	}
	if checks == nil {
		return err
	}
	return &store.Undone{Checks: checks, Err: err}
}

// isUndone reports whether Redis has certainly not run a job that has failed.
func (j *job) isUndone() bool {
	if j.isAbandoned() {
		return j.left // and whoever takes it out of the queue drops it
	}
	return j.err != nil && !errors.Is(j.err, redis.ErrClosed) && (j.unsent || neverRuns(j.err))
}

// neverRuns reports whether an error says that the script was not run, or stopped before its
// first write, though a later call may be. Redis refuses no write after the first one of a
// script.
func neverRuns(err error) bool {
	switch classOf(err) {
	case store.ClassOpen, store.ClassOverload, ClassMoved, ClassTryAgain, ClassClusterDown:
		return true
	case store.ClassReadOnly, store.ClassLoading, ClassMasterDown, store.ClassBusy, store.ClassMemory, store.ClassDisk:
		return true
	}
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "dial"
}
