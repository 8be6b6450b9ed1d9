package peek

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// A body is passed on as it was, with the error that ended it, and no more of it is kept than was asked for.
func TestBodiesArePassedOn(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("0123456789", 300)
	broken := errors.New("reset by peer")
	for _, most := range []int{1, 511, 512, 2999, 3000, 3001, 1 << 20} {
		for name, r := range map[string]io.Reader{
			"at once": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text)),
			"with its end": iotest.DataErrReader(strings.NewReader(text)),
		} {
			b := Begin(io.NopCloser(r), most)
			check.Equal(t, name+": complete", b.Complete, most >= len(text))
			if len(b.Head) > most+1 || cap(b.Head) > most+1 {
				t.Errorf("%s: %d bytes are kept, of %d", name, cap(b.Head), most)
			}
			check.Equal(t, name, string(must.Get(io.ReadAll(b))(t)), text)
		}
		b := Begin(io.NopCloser(io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken))), most)
		got, err := io.ReadAll(b)
		check.Equal(t, "a body that breaks", string(got), text)
		check.Is(t, "its error", err, broken)
		check.Equal(t, "it is complete", b.Complete, false)
	}
}
