package redissource

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/policy"
)

//go:embed publish.lua
var publishScript string

// about is what is stored of a release beside its file and the time.
type about struct {
	File    string `json:"file,omitempty"`
	Version string `json:"version,omitempty"`
	Hash    string `json:"sha256"`
	By      string `json:"by,omitempty"`
	Note    string `json:"note,omitempty"`
	Of      int64  `json:"of,omitempty"`
	ID      string `json:"id,omitempty"` // of the call of Add
}

// Add implements [policy.Archive].
func (s *Source) Add(ctx context.Context, file policy.File, release policy.Release, after int64) (policy.Release, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	sum := sha256.Sum256(file.Text)
	release.File, release.Version.Hash = file.Name, hex.EncodeToString(sum[:])
	told, err := json.Marshal(about{
		File: release.File, Version: release.Version.Name, Hash: release.Version.Hash,
		By: release.By, Note: release.Note, Of: release.Of, ID: rand.Text(),
	})
	if err != nil {
		return policy.Release{}, s.failed(err)
	}
	answer, err := s.client.Eval(ctx, publishScript, []string{s.key},
		max(after, -1), file.Name, string(file.Text), release.Version.Hash, string(told), policy.KeptReleases, policy.KeptBytes).Slice()
	if err != nil {
		return policy.Release{}, s.failed(err)
	}
	if len(answer) < 2 {
		return policy.Release{}, s.failed(errors.New("the answer is not that of the script"))
	}
	number, _ := answer[1].(int64)
	if len(answer) != 4 {
		return policy.Release{}, s.failed(fmt.Errorf("%w: release %d is there, and %d was to be replaced", policy.ErrOvertaken, number, after))
	}
	seconds, _ := answer[2].(string)
	micros, _ := answer[3].(string)
	release.Number, release.At = number, moment(seconds, micros)
	return release, nil
}

// moment returns the time of Redis's answer to TIME.
func moment(seconds, micros string) time.Time {
	s, _ := strconv.ParseInt(seconds, 10, 64)
	m, _ := strconv.ParseInt(micros, 10, 64)
	return time.Unix(s, m*1000)
}

// Releases implements [policy.Archive].
func (s *Source) Releases(ctx context.Context) ([]policy.Release, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := s.bounded(ctx, maxAbout, fieldFirst, fieldNumber); err != nil {
		return nil, s.failed(err)
	}
	bounds, err := s.client.HMGet(ctx, s.key, fieldFirst, fieldNumber).Result()
	if err != nil {
		return nil, s.failed(err)
	}
	first, last := integer(bounds[0]), integer(bounds[1])
	if last == 0 {
		return nil, nil
	}
	first = max(first, last-2*policy.KeptReleases, 1)
	fields := make([]string, 0, last-first+1)
	for n := first; n <= last; n++ {
		fields = append(fields, "about:"+strconv.FormatInt(n, 10))
	}
	if err := s.bounded(ctx, maxAbout, fields...); err != nil {
		return nil, s.failed(err)
	}
	values, err := s.client.HMGet(ctx, s.key, fields...).Result()
	if err != nil {
		return nil, s.failed(err)
	}
	all := make([]policy.Release, 0, len(values))
	for i, value := range values {
		text, there := value.(string)
		if !there {
			continue // forgotten since
		}
		release, err := decode(text)
		if err != nil {
			return nil, s.failed(fmt.Errorf("release %d: %w", first+int64(i), err))
		}
		release.Number = first + int64(i)
		all = append(all, release)
	}
	slices.Reverse(all)
	return all, nil
}

// decode reads "seconds microseconds JSON".
func decode(text string) (policy.Release, error) {
	seconds, rest, _ := strings.Cut(text, " ")
	micros, told, _ := strings.Cut(rest, " ")
	var a about
	if err := json.Unmarshal([]byte(told), &a); err != nil {
		return policy.Release{}, fmt.Errorf("what is told of it can't be read: %w", err)
	}
	return policy.Release{
		At: moment(seconds, micros), File: a.File, Version: policy.Version{Name: a.Version, Hash: a.Hash},
		By: a.By, Note: a.Note, Of: a.Of,
	}, nil
}

func integer(value any) int64 {
	text, _ := value.(string)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// Read implements [policy.Archive].
func (s *Source) Read(ctx context.Context, number int64) (policy.File, error) {
	n := strconv.FormatInt(number, 10)
	asked, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := s.bounded(asked, maxAbout, "about:"+n); err != nil {
		return policy.File{}, s.failed(err)
	}
	told, err := s.client.HGet(asked, s.key, "about:"+n).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return policy.File{}, s.failed(fmt.Errorf("release %d: %w, or it is no longer kept", number, policy.ErrNoRelease))
	case err != nil:
		return policy.File{}, s.failed(err)
	}
	release, err := decode(told)
	if err != nil {
		return policy.File{}, s.failed(err)
	}
	file, err := s.file(ctx, fieldName, "text:"+n, "does not hold the file of release "+n)
	file.Name = release.File
	return file, err
}
