package service

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/service/internal/strict"
)

// serveChecks decides several calls, each by itself.
func (s *Service) serveChecks(e *exchange) error {
	if err := e.noQuery(); err != nil { // each answer has a status of its own
		return err
	}
	calls, err := readBody(e.body, func(r *strict.Reader) ([]*call, error) { return readCalls(r, s.config.MaxChecks) })
	if err != nil {
		return err
	}
	answers := make([][]byte, len(calls))
	s.each(e.context(), len(calls), func(ctx context.Context, i int) { answers[i] = s.answerTo(ctx, calls[i], i) })
	e.out = append(e.out[:0], `{"answers":[`...)
	for i, answer := range answers {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		e.out = append(e.out, answer...)
	}
	e.out = append(e.out, "]}"...)
	e.answer(http.StatusOK)
	return nil
}

// readCalls reads several calls. Together they have at most a number of checks.
func readCalls(r *strict.Reader, most int) (calls []*call, err error) {
	left := most
	err = r.Object(func(name string) error {
		if name != "checks" {
			return r.Unknown("checks")
		}
		return r.Array(most, func(int) error {
			c, err := readCall(r, most)
			if err != nil {
				return err
			}
			if left -= len(c.checks); left < 0 {
				return r.Errorf("more than %d checks in all", most)
			}
			calls = append(calls, c)
			return nil
		})
	})
	if err == nil && len(calls) == 0 {
		err = r.Errorf("checks is missing or empty")
	}
	return calls, err
}

// answerTo decides one of several calls. What is wrong with one is the answer to that one.
func (s *Service) answerTo(ctx context.Context, c *call, i int) (answer []byte) {
	defer func() {
		// A function of the application has panicked, such as an observer. The server recovers from that in
		// the goroutine of the request alone; in one of each it would end the process.
		if p := recover(); p != nil {
			s.log.Error("weblimit: service: a check panics", "panic", fmt.Sprint(p))
			answer = append(problemOf(nil).append([]byte(`{"error":`)), '}')
		}
	}()
	pointer := "/checks/" + strconv.Itoa(i)
	asks, err := s.asks(ctx, c, pointer)
	if err == nil {
		err = s.decide(ctx, c, asks, pointer, false, false)
	}
	if err == nil {
		answer, err = s.appendReservation(appendAnswer(nil, c, asks, make(adapter.HeaderMap, 4)), c, asks, false)
	}
	if err != nil {
		return append(problemOf(err).append([]byte(`{"error":`)), '}')
	}
	return answer
}

// maxParallel bounds how many checks of one call are decided at the same time. A store on a
// network sends those of a moment together.
const maxParallel = 32

// each calls do for all of n calls, and returns when all are done. A store in this process answers
// sooner than a goroutine starts, so its calls are made one after the other.
func (s *Service) each(ctx context.Context, n int, do func(context.Context, int)) {
	if n == 1 || s.config.Store.Registry().Server().InProcess {
		for i := range n {
			do(ctx, i)
		}
		return
	}
	var wait sync.WaitGroup
	places := make(chan struct{}, maxParallel)
	for i := range n {
		places <- struct{}{}
		wait.Go(func() {
			defer func() { <-places }()
			do(ctx, i)
		})
	}
	wait.Wait()
}
