package program_test

import (
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/program"
)

// counting is a test that counts its errors.
type counting struct {
	*testing.T
	errors int
}

func (c *counting) Error(...any)          { c.errors++ }
func (c *counting) Errorf(string, ...any) { c.errors++ }

func TestFollowNotices(t *testing.T) {
	t.Parallel()
	const denial = "  echo ' 429'   # 429"
	for name, tour := range map[string]struct {
		errors int
		lines  []string
	}{
		"nothing wrong":                    {0, []string{"  printf ' 200\\n 200\\n 429\\n'  # 200, then 429", "  echo 'HTTP/1.1 200 OK'; echo hello  # 200: ell (or so)"}},
		"a client of gRPC":                 {0, []string{"  printf 'OK, 3\\nResourceExhausted \"calls\"\\n'  # OK, then ResourceExhausted: calls"}},
		"a body that ends in a number":     {0, []string{denial, "  printf 'HTTP/1.1 200 OK\\n\\nrequests 429\\n'  # 200"}},
		"a pause":                          {0, []string{"  sleep 5; echo ' 429'  # 429"}},
		"no limit":                         {1, []string{"  echo ' 200'  # 200"}},
		"no comment":                       {1, []string{denial, "  echo ' 200'"}},
		"another status":                   {1, []string{denial, "  echo ' 500'  # 200"}},
		"no status":                        {1, []string{denial, "  echo 200  # 200"}},
		"another status first":             {1, []string{"  printf ' 500\\n 429\\n'  # 200, then 429"}},
		"no denial at the end":             {1, []string{"  printf ' 200\\n 200\\n'  # 200, then 429"}},
		"a denial where none was promised": {1, []string{denial, "  printf ' 200\\n 429\\n'  # 200"}},
		"another text":                     {1, []string{denial, "  echo 'no 200'  # 200: yes"}},
		"a command that fails":             {1, []string{denial, "  echo ' 200'; false  # 200"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &counting{T: t}
			program.Follow(c, tour.lines)
			check.Equal(t, "errors", c.errors, tour.errors)
		})
	}
}
