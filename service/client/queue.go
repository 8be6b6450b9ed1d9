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
// once. Those that come meanwhile wait, and the next request takes them along: no check waits for others
// to come.
//
// It has little in common with the line of package quota, whose callers share answers: here each has its own, leaves when it
// likes, and makes the request itself if it is alone.
type queue struct {
	client *Client

	mu      sync.Mutex
	waiting []*pending // Guarded by mu.
	leaders int        // requests under way. Guarded by mu.
}

// pending is a check that waits for its answer.
type pending struct {
	text   []byte        // as JSON
	done   chan struct{} // closed when answer and err are set
	answer Answer
	err    error
	gone   bool // nobody waits for it any more, so that it is not sent. Guarded by queue.mu
}

// maxBatchBytes bounds the checks that go together, unless one alone has more. It leaves room below what the
// service takes by default.
const maxBatchBytes = 60 << 10

// ask sends a check, alone or with others, and waits for its answer.
func (q *queue) ask(ctx context.Context, call *wireCall) (Answer, error) {
	text, err := json.Marshal(call)
	if err != nil {
		return Answer{}, fmt.Errorf("weblimit: client: %w", err)
	}
	p := &pending{text: text, done: make(chan struct{})}
	q.mu.Lock()
	if len(q.waiting) >= q.client.config.MaxPending {
		q.mu.Unlock()
		return Answer{}, q.client.failure(store.ClassOverload, errors.New("too many checks are waiting"))
	}
	lead := q.leaders < q.client.config.Connections
	if lead {
		q.leaders++
	}
	alone := lead && len(q.waiting) == 0
	if !alone {
		q.waiting = append(q.waiting, p)
	}
	q.mu.Unlock()
	switch {
	case alone && ctx.Done() == nil: // needs no other goroutine, and the timeout bounds it
		q.first(p)
		return p.answer, p.err
	case alone: // so that the caller can leave when its context ends
		go q.first(p)
	case lead:
		go q.lead()
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

// first sends a check, and has another goroutine send what waits then: nobody works for others.
func (q *queue) first(p *pending) {
	q.send([]*pending{p})
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) > 0 {
		go q.lead()
		return
	}
	q.leaders--
}

// lead sends what waits until nothing does.
func (q *queue) lead() {
	for batch := q.take(); batch != nil; batch = q.take() {
		q.send(batch)
	}
}

// take returns what is sent next. If nothing waits it returns nil, and the leader must end.
func (q *queue) take() []*pending {
	q.mu.Lock()
	defer q.mu.Unlock()
	var batch []*pending
	size := 0
	for len(q.waiting) > 0 && len(batch) < q.client.config.MaxBatch {
		if p := q.waiting[0]; !p.gone {
			if size += len(p.text) + 1; len(batch) > 0 && size > maxBatchBytes {
				break
			}
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
	ctx := context.Background()
	if len(batch) == 1 {
		p := batch[0]
		p.err = q.client.send(ctx, "/v1/check", p.text, &p.answer)
		close(p.done)
		return
	}
	text := []byte(`{"checks":[`)
	for i, p := range batch {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, p.text...)
	}
	var got struct {
		Answers []wireAnswer `json:"answers"`
	}
	err := q.client.send(ctx, "/v1/checks", append(text, "]}"...), &got)
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
// that is wrong must not keep others from being decided. The transport bounds how many go at once.
func (q *queue) sendEach(batch []*pending) {
	var wait sync.WaitGroup
	for _, p := range batch {
		wait.Go(func() { q.send([]*pending{p}) })
	}
	wait.Wait()
}
