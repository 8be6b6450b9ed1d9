package redissource_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/policy/internal/archivetest"
	"github.com/weblimit/weblimit/policy/redissource"
)

func TestArchive(t *testing.T) {
	t.Parallel()
	client := clientOf(t, redistest.Shared(t))
	archivetest.Run(t, func(t *testing.T) policy.Archive {
		return redissource.New(client, redistest.Prefix(t)+t.Name())
	})
}

func TestArchiveOnACluster(t *testing.T) {
	t.Parallel()
	client := redistest.SharedCluster(t).ClientWith(t, &redis.ClusterOptions{ReadTimeout: time.Minute})
	in := redissource.New(client, redistest.Prefix(t)+"policy")
	for n := range 3 {
		release, err := policy.Publish(t.Context(), in, archivetest.File(n+1), policy.Publication{})
		if err != nil || release.Number != int64(n+1) {
			t.Fatalf("published %v: %v", release, err)
		}
	}
	if back, err := policy.Rollback(t.Context(), in, 0, policy.Publication{}); err != nil || back.Of != 2 {
		t.Errorf("rolled back to %v: %v", back, err)
	}
}

// A file of another kind is published, and rolled back to, by its own check.
func TestAFileOfAnotherKind(t *testing.T) {
	t.Parallel()
	in := redissource.New(clientOf(t, redistest.Shared(t)), redistest.Prefix(t)+"other")
	wrong := errors.New("it is wrong")
	checked := 0
	publication := policy.Publication{Validate: func(file policy.File) error {
		checked++
		if !strings.HasPrefix(string(file.Text), "right") {
			return wrong
		}
		return nil
	}}
	publish := func(text string) (policy.Release, error) {
		return policy.Publish(t.Context(), in, policy.File{Name: "a.txt", Text: []byte(text)}, publication)
	}
	for i, text := range []string{"right 1", "right 2", "right 2"} {
		check.Equal(t, text, must.Get(publish(text))(t).Number, min(int64(i)+1, 2))
	}
	if _, err := publish("left"); !errors.Is(err, wrong) {
		t.Errorf("a file that is wrong: %v", err)
	}
	check.Equal(t, "rolled back to", must.Get(policy.Rollback(t.Context(), in, 0, publication))(t).Of, 1)
	check.Equal(t, "checked", checked, 5)
	_, err := publish("right" + strings.Repeat(" ", policy.MaxBytes))
	check.Fails(t, "a file that no source reads", err, "the most is 8388608")
	check.Equal(t, "checked before it was measured", checked, 5)
	publication.Options = new(policy.Options)
	_, err = publish("right 3")
	check.Fails(t, "options beside another check", err, "Publication has Options")
	check.Equal(t, "what is read", string(must.Get(in.Load(t.Context()))(t).Text), "right 1")
}

// A client that does not hear the answer, because the connection ends or Redis is slow, asks again.
// Then it has published once, and was not overtaken by itself.
func TestARepeatedQuestionPublishesOnce(t *testing.T) {
	t.Parallel()
	proxy := redistest.StartProxy(t, redistest.Shared(t))
	in := redissource.New(proxy.ClientWith(t, &redis.Options{ReadTimeout: time.Minute}), redistest.Prefix(t)+"policy")
	proxy.Match("eval")
	for after := range int64(3) {
		proxy.CutReplies(2)
		first, err := in.Add(t.Context(), archivetest.File(1), policy.Release{}, after)
		if err != nil || first.Number != after+1 {
			t.Fatalf("after %d: %v, %v", after, first, err)
		}
		all, err := in.Releases(t.Context())
		if err != nil || len(all) != int(first.Number) || all[0] != first {
			t.Errorf("got %v, %v, want %v", all, err, first)
		}
	}
	check.Equal(t, "replies cut", proxy.RepliesCut(), 6)
}

// The rights of docs/service/policy.md are enough, and those of services don't publish.
func TestRights(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	prefix := redistest.Prefix(t)
	key, writes, reads := prefix+"policy", prefix+"publisher", prefix+"service"
	server.User(t, writes, "~"+key, "+eval", "+hget", "+hmget", "+hset", "+hdel", "+hstrlen", "+time")
	server.User(t, reads, "~"+key, "+hget", "+hmget", "+hstrlen")
	publisher, service := redissource.New(server.ClientAs(t, writes), key), redissource.New(server.ClientAs(t, reads), key)
	for n := range policy.KeptReleases + 2 {
		must.Get(policy.Publish(t.Context(), publisher, archivetest.File(n+1), policy.Publication{}))(t)
	}
	set := must.Get(policy.From(service, policy.Options{AnyName: true}))(t)
	defer set.Watch(t.Context())()
	must.Get(policy.Rollback(t.Context(), publisher, 0, policy.Publication{}))(t)
	wait.Until(t, "a service follows", func() bool {
		return set.Status().Version.Name == fmt.Sprintf("v%d", policy.KeptReleases+1)
	})
	check.Fails(t, "a service publishes", check.ErrorOf(policy.Publish(t.Context(), service, archivetest.File(1), policy.Publication{})), "")
}

// Redis holds up to 512 MB under a key, which must not get into the memory of a fleet.
func TestAValueTooLargeIsNotRead(t *testing.T) {
	t.Parallel()
	client := clientOf(t, redistest.Shared(t))
	for field, most := range map[string]int{"text": policy.MaxBytes, "name": 4096, "first": 4096, "number": 4096, "about:1": 4096} {
		key := redistest.Prefix(t) + field
		fields := []any{"text", "limits: []", "name", "x", "sha256", "x", "number", "1", "first", "1", "about:1", "1 1 {}"}
		must.OK(t, client.HSet(t.Context(), key, append(fields, field, strings.Repeat("#", most+1))...).Err())
		source := redissource.New(client, key)
		_, err := source.Load(t.Context())
		if field != "text" && field != "name" {
			_, err = source.Releases(t.Context())
		}
		if field == "about:1" && err != nil {
			_, err = source.Read(t.Context(), 1)
		}
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("the field %s has %d bytes, the most is %d", field, most+1, most)) {
			t.Errorf("%s: got %v", field, err)
		}
	}
}
