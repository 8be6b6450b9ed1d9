package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
)

// link is the way from a region to home: a store that is far away. Wrapping a store takes no more than this.
type link struct {
	core.Store
	oneWay time.Duration
	cut    atomic.Bool
}

func (l *link) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	return l.cross(ctx, func() error { return l.Store.Take(ctx, checks, results) })
}

func (l *link) Peek(ctx context.Context, checks []core.Check, results []core.Result) error {
	return l.cross(ctx, func() error { return l.Store.Peek(ctx, checks, results) })
}

func (l *link) Charge(ctx context.Context, checks []core.Check, results []core.Result) error {
	return l.cross(ctx, func() error { return l.Store.Charge(ctx, checks, results) })
}

func (l *link) Refund(ctx context.Context, checks []core.Check, results []core.Result) error {
	return l.cross(ctx, func() error { return l.Store.Refund(ctx, checks, results) })
}

// cross makes a call on the other side.
func (l *link) cross(ctx context.Context, call func() error) error {
	if l.cut.Load() {
		return errors.New("no route to home")
	}
	if err := wait(ctx, l.oneWay); err != nil {
		return err
	}
	if err := call(); err != nil {
		return err
	}
	return wait(ctx, l.oneWay)
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// start starts the stores of all regions and of home, and returns the regions, what the stores are, and what ends them.
func start() (all []*region, kind string, end func(), err error) {
	program, notFound := exec.LookPath("redis-server")
	if notFound != nil {
		all, err = connect(func(string) (core.Store, error) { return core.NewMemory(), nil })
		return all, "in memory", func() {}, err
	}
	dir, err := os.MkdirTemp("", "regions")
	if err != nil {
		return nil, "", nil, err
	}
	var servers []*exec.Cmd
	end = func() {
		for _, s := range servers {
			_ = s.Process.Kill()
			_ = s.Wait()
		}
		_ = os.RemoveAll(dir)
	}
	all, err = connect(func(name string) (core.Store, error) {
		socket := filepath.Join(dir, name)
		server := exec.Command(program, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir)
		if err := server.Start(); err != nil {
			return nil, err
		}
		servers = append(servers, server)
		client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
		for tries := 0; ; tries++ {
			err := client.Ping(context.Background()).Err()
			if err == nil {
				return redisstore.New(client), nil
			}
			if tries == 100 {
				return nil, err
			}
			time.Sleep(50 * time.Millisecond) // the server begins to listen
		}
	})
	if err != nil {
		end()
	}
	return all, "on a redis-server of its own", end, err
}

// connect makes the regions, on stores that a function makes.
func connect(newStore func(name string) (core.Store, error)) (all []*region, err error) {
	home, err := newStore("home")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		local, err := newStore(name)
		if err != nil {
			return nil, err
		}
		r, err := newRegion(name, local, home)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}
