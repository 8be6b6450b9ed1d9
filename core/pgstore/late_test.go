package pgstore_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/pgstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/must"
)

// stopped is a context with little time, of a process that is stopped before it waits for an answer.
type stopped struct {
	context.Context
	at   time.Time
	over chan struct{} // closed when the process goes on
}

func (c *stopped) Deadline() (time.Time, bool) { return c.at, true }
func (c *stopped) Done() <-chan struct{}       { return c.over }

func (c *stopped) Err() error {
	select {
	case <-c.over:
		return context.DeadlineExceeded
	default:
	}
	time.Sleep(time.Until(c.at) + 5*time.Millisecond) // the process notices only then that its time is over
	close(c.over)
	return nil
}

// Calls with hardly any time say nothing of the server, however late the process notices that it is over.
func TestAShortDeadlineThatIsNoticedLateIsAShortOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	silent := must.Get(net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432")))(t)
	defer func() { _ = silent.Close() }()
	s := pgstore.New(newPool(t, "host="+dir+" port=5432 sslmode=disable user=u dbname=d"))
	s.OnEvent(func(store.Event) {})
	rule := mustRule(t, core.PerHour(10).Named("plan"))
	for i := range 10 {
		ctx := &stopped{context.Background(), time.Now().Add(40 * time.Millisecond), make(chan struct{})}
		err := s.Take(ctx, []core.Check{checkOf("k", rule, 1)}, make([]core.Result, 1))
		must.Equal(t, fmt.Sprintf("call %d: class of %v", i, err), classOf(err), store.ClassTimeout)
	}
}
