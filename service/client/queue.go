package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// queue sends checks. As long as fewer than Config.Connections requests are under way, a check is sent at
// once, by its own goroutine. Those that come meanwhile wait, and the next request takes them
// along: no check waits for others to come.
type queue struct {
	client *Client

	mu      sync.Mutex
	waiting []*pending // Guarded by mu.
	leaders int        // requests under way. Guarded by mu.
}

// pending is a check that waits for its answer.
type pending struct {
	call   *wireCall
	done   chan struct{} // closed when answer and err are set
	answer Answer
	err    error
	gone   bool // nobody waits for it any more, so that it is not sent. Guarded by queue.mu.
}

// ask sends a check, alone or with others, and waits for its answer.
func (q *queue) ask(ctx context.Context, call *wireCall) (Answer, error) {
	p := &pending{call: call, done: make(chan struct{})}
	q.mu.Lock()
	if len(q.waiting) >= q.client.config.MaxPending {
		q.mu.Unlock()
		return Answer{}, q.client.failure(store.ClassOverload, errors.New("too many checks are waiting"))
	}
	q.waiting = append(q.waiting, p)
	lead := q.leaders < q.client.config.Connections
	if lead {
		q.leaders++
	}
	q.mu.Unlock()
	switch {
	case lead && ctx.Done() == nil:
		q.lead(p)
	case lead: // so that the caller can leave when its context ends
		go q.lead(p)
	}
	timer := time.NewTimer(q.client.config.Timeout)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.answer, p.err
	case <-timer.C:
		q.leave(p)
		return Answer{}, q.client.failure(store.ClassTimeout, context.DeadlineExceeded)
	case <-ctx.Done():
		q.leave(p)
		return Answer{}, q.client.failure(store.ClassTimeout, ctx.Err())
	}
}

// leave notes that nobody waits for an answer. If the check was not sent yet, it is not charged.
func (q *queue) leave(p *pending) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p.gone = true
}

// lead sends what waits until own is answered. If others wait then, another goroutine goes on, so that nobody
// works for others longer than for itself.
func (q *queue) lead(own *pending) {
	for {
		batch := q.take()
		if batch == nil {
			return
		}
		q.send(batch)
		if own == nil {
			continue
		}
		select {
		case <-own.done:
			go q.lead(nil)
			return
		default:
		}
	}
}

// take returns what is sent next. If nothing waits it returns nil, and the leader must end.
func (q *queue) take() []*pending {
	q.mu.Lock()
	defer q.mu.Unlock()
	var batch []*pending
	for len(q.waiting) > 0 && len(batch) < q.client.config.MaxBatch {
		if p := q.waiting[0]; !p.gone {
			batch = append(batch, p)
		}
		q.waiting[0] = nil
		q.waiting = q.waiting[1:]
	}
	if len(batch) == 0 {
		q.leaders--
		q.waiting = nil
	}
	return batch
}

// wireAnswer is an answer of a batch.
type wireAnswer struct {
	Answer
	Error *Problem `json:"error"`
}

// send sends a batch, and gives each check its answer. Bounded by the timeout, and not by the contexts of those
// who wait: others wait, too.
func (q *queue) send(batch []*pending) {
	ctx, cancel := context.WithTimeout(context.Background(), q.client.config.Timeout)
	defer cancel()
	if len(batch) == 1 {
		p := batch[0]
		text, err := json.Marshal(p.call)
		if err == nil {
			err = q.client.send(ctx, "/v1/check", text, &p.answer)
		}
		p.err = err
		close(p.done)
		return
	}
	calls := make([]*wireCall, len(batch))
	for i, p := range batch {
		calls[i] = p.call
	}
	var got struct {
		Answers []wireAnswer `json:"answers"`
	}
	text, err := json.Marshal(map[string]any{"checks": calls})
	if err == nil {
		err = q.client.send(ctx, "/v1/checks", text, &got)
	}
	if problem := (*Problem)(nil); errors.As(err, &problem) {
		q.sendEach(batch) // one of them is wrong, or they are too many or too long together
		return
	}
	if err == nil && len(got.Answers) != len(batch) {
		err = q.client.failure(store.ClassUnknown, fmt.Errorf("%d answers to %d checks", len(got.Answers), len(batch)))
	}
	for i, p := range batch {
		switch p.err = err; {
		case err != nil:
		case got.Answers[i].Error != nil:
			p.err = got.Answers[i].Error
		default:
			p.answer = got.Answers[i].Answer
		}
		close(p.done)
	}
}

// sendEach sends the checks of a batch that was refused as a whole, which charges nothing, one by one: a check
// that is wrong must not keep others from being decided.
func (q *queue) sendEach(batch []*pending) {
	for _, p := range batch {
		q.send([]*pending{p})
	}
}
