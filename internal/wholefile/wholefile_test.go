package wholefile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

func write(t *testing.T, name, text string, age time.Duration) {
	t.Helper()
	must.OK(t, os.WriteFile(name, []byte(text), 0o600))
	at := time.Now().Add(-age)
	must.OK(t, os.Chtimes(name, at, at))
}

func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	write(t, name, "text", time.Hour)
	check.Equal(t, "what is read", string(must.Get(Read(t.Context(), name, 4))(t)), "text")
	check.Fails(t, "a file above the bound", check.ErrorOf(Read(t.Context(), name, 3)), "has 4 bytes, the most is 3")
	check.Fails(t, "a directory", check.ErrorOf(Read(t.Context(), dir, 3)), "is not a regular file")
	check.Is(t, "no file", check.ErrorOf(Read(t.Context(), name+"x", 3)), os.ErrNotExist)
	if runtime.GOOS == "linux" {
		// It says that it is empty, and a read of it ends only when the kernel has a message.
		text, err := Read(t.Context(), "/proc/kmsg", 1000)
		if len(text) > 0 || err != nil && !errors.Is(err, os.ErrPermission) && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("/proc/kmsg: %q, %v", text, err)
		}
	}
}

// A file that is written while it is read is read again, until it stays as it is.
func TestAFileThatIsBeingWrittenIsWaitedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		name := filepath.Join(dir, "file")
		lines := strings.SplitAfter("one\ntwo\nthree\nfour\nfive\n", "\n")
		write(t, name, lines[0], 0)
		go func() {
			for i := range lines {
				time.Sleep(settle / 2)
				write(t, name, strings.Join(lines[:i+1], ""), 0)
			}
		}()
		check.Equal(t, "what is read", string(must.Get(Read(t.Context(), name, 100))(t)), strings.Join(lines, ""))

		ctx, cancel := context.WithCancel(t.Context())
		var writer sync.WaitGroup
		writer.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				write(t, name, strings.Repeat("x", 1+i%7), 0)
				time.Sleep(settle / 2)
			}
		})
		time.Sleep(settle / 4)
		began := time.Now()
		check.Is(t, "a file that is always being written", check.ErrorOf(Read(ctx, name, 100)), ErrChanging)
		check.Equal(t, "how long it was waited for", time.Since(began), patience)
		cancel()
		writer.Wait()
	})
}

// A disk that hangs holds up nobody for longer than asked, and takes one goroutine, not one per attempt.
func TestAReadThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var begun atomic.Int64
		free := make(chan struct{})
		hangs := func() (reading, error) {
			begun.Add(1)
			<-free
			return reading{text: []byte("late")}, nil
		}
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			began := time.Now()
			check.Is(t, "a read that hangs", check.ErrorOf(inTime(ctx, "hanging", hangs)), context.DeadlineExceeded)
			check.Equal(t, "how long it took", time.Since(began), time.Second)
			cancel()
		}
		check.Equal(t, "reads that hang", begun.Load(), 1)
		close(free)
		synctest.Wait()
		check.Equal(t, "what is read afterwards", string(must.Get(inTime(t.Context(), "hanging", hangs))(t).text), "late")
		synctest.Wait()
		hanging.Lock()
		defer hanging.Unlock()
		check.Equal(t, "whether the name is kept", hanging.done["hanging"] != nil, false)
	})
}

// A change is told once the file has stayed as it is from one look to the next.
func TestWatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		name := filepath.Join(dir, "file")
		write(t, name, "1", time.Hour)
		var told atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			Watch(ctx, func() ([]string, error) { return []string{name}, nil }, func() { told.Add(1) })
			close(ended)
		}()
		tells := func(what string, after time.Duration, want int64) {
			t.Helper()
			told.Store(0)
			time.Sleep(after)
			synctest.Wait()
			check.Equal(t, what, told.Load(), want)
		}
		time.Sleep(Poll / 2)
		tells("at first, for what was changed before", Poll, 1)
		tells("without a change", 10*Poll, 0)
		for i := range 5 { // each look finds another file
			write(t, name, strings.Repeat("x", i+2), time.Hour)
			tells("while it is being written", Poll, 0)
		}
		tells("once it stays", Poll, 1)
		tells("and then no more", 10*Poll, 0)
		must.OK(t, os.Remove(name))
		tells("when it is gone", 3*Poll, 1)
		write(t, name, "1", 0)
		tells("while it is young, since two changes can look like one", 10*Poll, 3)
		cancel()
		<-ended
	})
}

func TestIsEnded(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"a: 1\n...\n": true, "a: 1\n...": true, "a: 1\r\n...\r\n": true, `{"a": 1}`: true, "...": true,
		"a: 1\n": false, "a: 1\n... ...": false, "": false, "a: b...": false, "a: 1\n...\nb: 2\n": false,
	} {
		check.Equal(t, text, IsEnded([]byte(text)), want)
	}
}
