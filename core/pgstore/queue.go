package pgstore

import "sync"

// queue decides which calls fly together. A call of a record that is in flight waits, so that
// the calls of this process never compete with each other: a hot key costs one transaction
// per flight, and not one per call. Calls that have no record in common fly at the same time,
// as long as there are connections for them, and together where there are not.
//
// It has no code in common with other batchers: their queues know nothing of what is in flight but how much it is.
type queue struct {
	most   int               // flights
	depart func(jobs []*job) // starts a flight, which ends with landed

	mu      sync.Mutex
	waiting []*job          // Guarded by mu. In the order of their arrival.
	wanted  map[string]int  // Guarded by mu. Calls by record, those in flight included.
	busy    map[string]bool // Guarded by mu. Records in flight.
	flights int             // Guarded by mu.
}

func newQueue(most int, depart func([]*job)) *queue {
	return &queue{most: most, depart: depart, wanted: map[string]int{}, busy: map[string]bool{}}
}

// add starts a flight for a job, or lets it wait. It refuses a job if too many wait.
func (q *queue) add(j *job) (ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) >= mostWaiting {
		q.keep(func(*job) bool { return true }) // those whose callers have left need no place
		if len(q.waiting) >= mostWaiting {
			return false
		}
	}
	// A call for a record that others want already joins those behind it, even if nothing flies: nobody overtakes.
	alone := true
	for _, id := range j.ids {
		alone = alone && q.wanted[id] == 0
		q.wanted[id]++
	}
	if alone && q.flights < q.most {
		q.start([]*job{j})
	} else {
		q.waiting = append(q.waiting, j)
	}
	return true
}

// landed releases the records of jobs that are done.
func (q *queue) landed(jobs []*job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range jobs {
		for _, id := range j.ids {
			delete(q.busy, id)
			q.unwant(id)
		}
	}
	q.next()
}

// returned says that a flight's connection is free.
func (q *queue) returned() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flights--
	q.next()
}

// next starts flights for those who wait. q.mu is held.
func (q *queue) next() {
	for q.flights < q.most && len(q.waiting) > 0 {
		jobs := q.gather()
		if len(jobs) == 0 {
			return
		}
		q.start(jobs)
	}
}

// start begins a flight. q.mu is held.
func (q *queue) start(jobs []*job) {
	for _, j := range jobs {
		for _, id := range j.ids {
			q.busy[id] = true
		}
	}
	q.flights++
	go q.depart(jobs)
}

// gather takes those out of the queue who can fly together now. Nobody overtakes a call for
// the same record. q.mu is held.
func (q *queue) gather() (jobs []*job) {
	held := map[string]bool{} // records of calls that go on waiting
	records := 0
	q.keep(func(j *job) bool {
		flies := len(jobs) < mostJobs && records+len(j.ids) <= mostRecords
		for _, id := range j.ids {
			flies = flies && !q.busy[id] && !held[id]
		}
		if flies {
			jobs, records = append(jobs, j), records+len(j.ids)
			return false
		}
		for _, id := range j.ids {
			held[id] = true
		}
		return true
	})
	return jobs
}

// keep leaves in the queue those that stay. The jobs whose callers have left go in any case. q.mu is held.
func (q *queue) keep(stays func(*job) bool) {
	kept := q.waiting[:0]
	for _, j := range q.waiting {
		if j.progress.Load() == left {
			for _, id := range j.ids {
				q.unwant(id)
			}
		} else if stays(j) {
			kept = append(kept, j)
		}
	}
	clear(q.waiting[len(kept):]) // or what is gone would stay in memory
	q.waiting = kept
}

func (q *queue) unwant(id string) {
	if q.wanted[id]--; q.wanted[id] <= 0 {
		delete(q.wanted, id)
	}
}
