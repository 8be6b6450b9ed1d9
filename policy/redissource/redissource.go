// Package redissource keeps a policy file in Redis, so that a fleet of processes changes within a
// second:
//
//	set, err := policy.From(redissource.New(rdb, "limits"), policy.Options{Keep: "/var/lib/app/limits.yaml"})
//	…
//	defer set.Watch(ctx)()
//
// and whoever changes it, such as a pipeline:
//
//	err := redissource.Publish(ctx, rdb, "limits", file)
//
// Each process checks what it loads as it checks a file, and goes on with what it has while Redis does
// not answer. With [policy.Options].Keep it also starts then.
//
// # Security
//
// Whoever can write the key decides what is limited. Give services HGET and HMGET on it, and HSET to
// the pipeline alone.
package redissource

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/policy"
)

// The fields of the hash that holds a file.
const (
	fieldName = "name"
	fieldText = "text"
	fieldSum  = "sha256"
)

// Poll is how often a [Source] looks whether the file has changed: at 64 bytes, its hash.
const Poll = time.Second

// timeout is how long Redis may take to answer.
const timeout = 5 * time.Second

// maxBytes is the most that policy files have.
const maxBytes = 8 << 20

// Source is a policy file in Redis. It is a [policy.Source].
type Source struct {
	client redis.UniversalClient
	key    string
}

// New returns the file that is kept under a key.
func New(client redis.UniversalClient, key string) *Source { return &Source{client, key} }

// Load implements [policy.Source].
func (s *Source) Load(ctx context.Context) (policy.File, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	values, err := s.client.HMGet(ctx, s.key, fieldName, fieldText).Result()
	if err != nil {
		return policy.File{}, fmt.Errorf("weblimit: policy: Redis key %q: %w", s.key, err)
	}
	name, _ := values[0].(string)
	text, ok := values[1].(string)
	if !ok {
		return policy.File{}, fmt.Errorf("weblimit: policy: Redis key %q holds no policy file: publish one", s.key)
	}
	return policy.File{Name: name, Text: []byte(text)}, nil
}

// Watch implements [policy.Source].
func (s *Source) Watch(ctx context.Context, changed func()) {
	ticker := time.NewTicker(Poll)
	defer ticker.Stop()
	last := "" // so that what was published since Load is seen
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		asked, cancel := context.WithTimeout(ctx, timeout)
		sum, err := s.client.HGet(asked, s.key, fieldSum).Result()
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

// Publish checks a file, and puts it under a key for all processes that watch it. The Options are for
// the check, as for [policy.Load]; without any, names of the application's are taken as they are, and
// secrets are not read.
func Publish(ctx context.Context, client redis.UniversalClient, key string, file policy.File, options ...policy.Options) error {
	if len(options) == 0 {
		options = []policy.Options{{AnyName: true, WithoutSecrets: true}}
	}
	if len(file.Text) > maxBytes {
		return fmt.Errorf("weblimit: policy: %s has %d bytes, the most is %d", file.Name, len(file.Text), maxBytes)
	}
	if _, err := policy.Parse(file.Name, file.Text, options...); err != nil {
		return err
	}
	sum := sha256.Sum256(file.Text)
	// One command, so that nobody reads a part of it.
	err := client.HSet(ctx, key, fieldName, file.Name, fieldText, string(file.Text), fieldSum, hex.EncodeToString(sum[:])).Err()
	if err != nil {
		return fmt.Errorf("weblimit: policy: Redis key %q: %w", key, err)
	}
	return nil
}
