// Package redissource keeps a policy file in Redis, so that a fleet of processes changes within a
// second:
//
//	set, err := policy.From(redissource.New(rdb, "limits"), policy.Options{Keep: "/var/lib/app/limits.yaml"})
//	…
//	defer set.Watch(ctx)()
//
// and whoever changes it, such as a pipeline, runs
//
//	weblimit policy publish limits.yaml --to redis://redis.example.com:6379 --name limits
//
// or in Go:
//
//	release, err := policy.Publish(ctx, redissource.New(rdb, "limits"), file, policy.Publication{By: "ann"})
//
// Each process checks what it loads as it checks a file, and goes on with what it has while Redis does
// not answer. With [policy.Options].Keep it also starts then.
//
// # What is stored
//
// One hash, so that it is in one slot of a Cluster: the file, and the last releases of it with their
// files, [policy.KeptReleases] at most. It does not expire.
//
// # Security
//
// Whoever can write the key decides what is limited. Give services HGET, HMGET and HSTRLEN on it, and no
// more. Whoever publishes needs EVAL, HSET, HDEL and TIME besides.
package redissource

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/policy"
)

// The fields of the hash that holds a file. Those of releases are in publish.lua.
const (
	fieldName   = "name"
	fieldText   = "text"
	fieldSum    = "sha256"
	fieldNumber = "number"
	fieldFirst  = "first"
)

// Poll is how often a [Source] looks whether the file has changed: at 64 bytes, its hash, and before at their
// number.
const Poll = time.Second

// timeout is how long Redis may take to answer. Tests, whose servers share processors with compilers, set another,
// and look more often.
var timeout, poll = 5 * time.Second, Poll

// Source is a policy file in Redis. It is a [policy.Archive].
type Source struct {
	client redis.UniversalClient
	key    string
}

var _ policy.Archive = (*Source)(nil)

// New returns the file that is kept under a key. It panics without a client or a key.
func New(client redis.UniversalClient, key string) *Source {
	if client == nil || key == "" {
		panic("weblimit: redissource: the file needs a client and a key")
	}
	return &Source{client, key}
}

// Load implements [policy.Source].
func (s *Source) Load(ctx context.Context) (policy.File, error) {
	return s.file(ctx, fieldName, fieldText, "holds no policy file: publish one")
}

// file reads a file of the hash.
func (s *Source) file(ctx context.Context, name, text, missing string) (policy.File, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := s.bounded(ctx, policy.MaxBytes, text); err != nil {
		return policy.File{}, s.failed(err)
	}
	if err := s.bounded(ctx, maxAbout, name); err != nil {
		return policy.File{}, s.failed(err)
	}
	values, err := s.client.HMGet(ctx, s.key, name, text).Result()
	if err != nil {
		return policy.File{}, s.failed(err)
	}
	file := policy.File{}
	file.Name, _ = values[0].(string)
	content, ok := values[1].(string)
	if !ok {
		return policy.File{}, s.failed(errors.New(missing))
	}
	file.Text = []byte(content)
	return file, nil
}

// maxAbout bounds what is stored beside a file: its name, hash and numbers, and what is told of a release.
const maxAbout = 4 << 10

// bounded returns an error if one of the fields is too large to be read: it has up to 512 MB, which whoever
// wrote them must not put into the memory of a fleet.
func (s *Source) bounded(ctx context.Context, most int64, fields ...string) error {
	sizes, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, field := range fields {
			p.Do(ctx, "HSTRLEN", s.key, field)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, size := range sizes {
		if n, err := size.(*redis.Cmd).Int64(); err != nil || n > most {
			return errors.Join(err, fmt.Errorf("the field %s has %d bytes, the most is %d", fields[i], n, most))
		}
	}
	return nil
}

// failed returns an error that says where.
func (s *Source) failed(err error) error {
	return fmt.Errorf("weblimit: policy: Redis key %q: %w", s.key, err)
}

// Watch implements [policy.Source].
func (s *Source) Watch(ctx context.Context, changed func()) {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	last := "" // so that what was published since Load is seen
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		asked, cancel := context.WithTimeout(ctx, timeout)
		sum, err := "", s.bounded(asked, maxAbout, fieldSum)
		if err == nil {
			sum, err = s.client.HGet(asked, s.key, fieldSum).Result()
		}
		cancel()
		switch {
		case errors.Is(err, redis.Nil):
			sum = "none"
		case err != nil:
			continue // what decides now goes on, and Redis has alarms of its own
		}
		if sum != last {
			changed()
		}
		last = sum
	}
}

// Publish checks a file, and puts it under a key for all processes that watch it, whatever is there:
// [policy.Publish] says more. The Options are for the check, as for [policy.Load].
func Publish(ctx context.Context, client redis.UniversalClient, key string, file policy.File, options ...policy.Options) error {
	p := policy.Publication{}
	switch len(options) {
	case 0:
	case 1:
		p.Options = &options[0]
	default:
		return errors.New("weblimit: redissource: more than one Options")
	}
	_, err := policy.Publish(ctx, New(client, key), file, p)
	return err
}
