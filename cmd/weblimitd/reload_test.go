package main_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// resident is the memory of the process in bytes.
func (in *instance) resident(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(in.cmd.Process.Pid), "status"))
	if err != nil {
		t.Skip(err)
	}
	_, after, _ := strings.Cut(string(text), "VmRSS:")
	kb := must.Get(strconv.ParseInt(strings.Fields(after)[0], 10, 64))(t)
	return kb << 10
}

// The policy changes again and again under load: no request is lost, and each is decided by one
// version as a whole. Goroutines and files don't grow.
func TestManyReloadsUnderLoad(t *testing.T) {
	t.Parallel()
	file := write(t, "limits.yaml", onePolicy("even", 100_000_000))
	in := start(t, nil, "--log-denials=false", "--policy", file)
	ctx, stop := context.WithCancel(t.Context())
	var served atomic.Int64
	var load sync.WaitGroup
	for i := range 4 {
		load.Go(func() {
			client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for ctx.Err() == nil {
				time.Sleep(5 * time.Millisecond) // more than some hundred a second finds nothing more
				a, status, err := decide(context.WithoutCancel(ctx), client, "http://"+in.data, fmt.Sprint("192.0.2.", i))
				if err != nil || status != http.StatusOK || !a.Allowed && !strings.HasPrefix(a.Version, "odd#") {
					t.Errorf("%+v %d %v", a, status, err)
					return
				}
				served.Add(1)
			}
		})
	}
	reloads, goroutines := 0, ""
	for began := time.Now(); time.Since(began) < long.Rounds(0, 3*time.Second) || reloads < long.Rounds(40, 60); reloads++ {
		text := onePolicy("even", 100_000_000+2*reloads)
		if reloads%2 == 1 {
			text = onePolicy("odd", 1) // denies all
		}
		rewrite(t, file, text)
		if code, body := in.do(t, http.MethodPost, "/reload", "Weblimit-Inspect", "1"); code != 200 {
			t.Fatalf("%d %s", code, body)
		}
		if reloads == 12 {
			goroutines = in.metric(t, "go_goroutines")
		}
	}
	stop()
	load.Wait()
	first, _ := strconv.Atoi(goroutines)
	wait.Until(t, fmt.Sprintf("there are not many more goroutines than the %d after some reloads", first), func() bool {
		last, err := strconv.Atoi(in.metric(t, "go_goroutines"))
		return err == nil && last <= first+20
	})
	t.Logf("%d reloads, %d requests, %d MB", reloads, served.Load(), in.resident(t)>>20)
}
