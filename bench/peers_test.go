package bench

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/bench/peers"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/edge"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// A peer that allows what it should deny would measure something else.
func checkDecides(t *testing.T, set func(peers.Quota) (peers.Limiter, error)) {
	t.Helper()
	for _, tt := range []struct {
		quota peers.Quota
		keys  int
		want  string // decisions on one key
	}{
		{peers.OneKey, 1, "yyyy"},
		{peers.ManyKeys, 3, "yyyy"},
		{peers.Denied, 3, "ynnn"},
		{peers.Quota{Units: 3, Window: time.Hour}, 2, "yyyn"},
	} {
		l := must.Get(set(tt.quota))(t)
		for _, key := range newKeys(tt.keys) {
			got := ""
			for range tt.want {
				switch allowed, err := l.Check(t.Context(), key); {
				case err != nil:
					t.Fatalf("%v: %v", tt.quota, err)
				case allowed:
					got += "y"
				default:
					got += "n"
				}
			}
			if got != tt.want {
				t.Errorf("%v, key %s: %s, want %s", tt.quota, key, got, tt.want)
			}
		}
		if l.Close != nil {
			l.Close()
		}
	}
}

func TestPeersInMemoryDecide(t *testing.T) {
	t.Parallel()
	edge.AwayFrom(time.Hour, 2*time.Minute) // when windows of some peers end
	for _, p := range peers.All() {
		if p.Memory != nil {
			t.Run(p.Name, func(t *testing.T) { checkDecides(t, p.Memory) })
		}
	}
}

func TestPeersOnRedisDecide(t *testing.T) {
	t.Parallel()
	edge.AwayFrom(time.Hour, 2*time.Minute) // when windows of some peers end
	server := redistest.Start(t, "--databases", "256")
	db := 0
	for _, p := range peers.All() {
		if p.Redis != nil {
			t.Run(p.Name, func(t *testing.T) {
				checkDecides(t, func(q peers.Quota) (peers.Limiter, error) {
					db++
					return p.Redis(peers.Server{Network: server.Network(), Addr: server.Addr(), DB: db, Timeout: time.Minute}, q)
				})
			})
		}
	}
}

func TestMiddlewareLimitsAndSaysSo(t *testing.T) {
	t.Parallel()
	edge.AwayFrom(time.Hour, 2*time.Minute) // when windows of some peers end
	for _, f := range frameworks {
		for _, p := range rotated(f.has) {
			t.Run(f.name+"/"+p.Name, func(t *testing.T) {
				h := must.Get(f.with(p, peers.Quota{Units: 2, Window: time.Hour}))(t)
				statuses := ""
				for range 3 {
					status, header := h.get()
					statuses += fmt.Sprint(status, " ")
					// Fiber's own middleware says so on allowed requests only.
					if says := hasHeader(header, "ratelimit"); says == p.Silent && (says || status == http.StatusNoContent) {
						t.Errorf("that headers tell of a limit is %v: %v", says, header)
					}
				}
				check.Equal(t, "statuses", statuses, "204 204 429 ")
			})
		}
	}
}

func hasHeader(h http.Header, part string) bool {
	for name := range h {
		if strings.Contains(strings.ReplaceAll(strings.ToLower(name), "-", ""), part) {
			return true
		}
	}
	return false
}
