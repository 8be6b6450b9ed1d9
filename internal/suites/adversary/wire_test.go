package adversary

import (
	"io"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/internal/test/must"
)

// A server that is busy can close a connection before it has served each request. Whatever the client does at its
// end, the connection is judged as soon as its patience is over, and not called stuck a minute later.
func TestARequestThatIsNotServedHoldsNoConnection(t *testing.T) {
	t.Parallel()
	for _, end := range []ending{waits, halfCloses, resets, leaves} {
		for name, serve := range map[string]func(*wire){
			"closes at once": func(w *wire) { must.OK(t, w.Close()) },
			"reads on": func(w *wire) {
				go func() {
					_, _ = io.Copy(io.Discard, w)
					_ = w.Close()
				}()
			},
		} {
			t.Run(end.String()+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWire(netip.MustParseAddr("192.0.2.7"), [][]byte{[]byte("PRI * HTTP/2.0")}, end, 10)
					w.multiplexed, w.patience = true, time.Second
					w.expect(line{"GET", "/"}, 1)
					start := time.Now()
					serve(w)
					if err := w.wait(); err != nil || time.Since(start) > 3*w.patience {
						t.Errorf("%v after %v", err, time.Since(start))
					}
				})
			})
		}
	}
}
