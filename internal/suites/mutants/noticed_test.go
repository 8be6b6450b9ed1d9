package mutants

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/must"
)

var (
	chosen   = flag.String("mutants", "", "make the mistakes whose description or file matches this regexp, and see which tests notice")
	tree     = flag.String("tree", Root, "the checkout in which they are made")
	patience = flag.Duration("patience", 5*time.Minute, "how long the tests of a package may take: if they don't end with a mistake, they have noticed it")
)

// TestNoticed makes mistakes, and sees which tests of `make test` notice. It writes them to noticed.txt. The test
// that has noticed a mistake before comes first.
func TestNoticed(t *testing.T) {
	if *chosen == "" {
		t.Skip("all of them take 20 minutes: make mutants")
	}
	r := &results{rows: must.Get(readRows(table))(t), mine: *tree == Root}
	wanted, b := regexp.MustCompile(*chosen), newBench(t)
	t.Run("", func(t *testing.T) {
		for i, m := range All() {
			if !wanted.MatchString(m.What) && !wanted.MatchString(m.File) {
				continue
			}
			t.Run(m.What, func(t *testing.T) {
				t.Parallel()
				if n, err := m.Count(*tree); !r.mine && (err != nil || n != 1) {
					r.skip()
					t.Skip("not there: " + m.What)
				}
				began := time.Now()
				by := b.noticedBy(t, i+1, &m, r.row(m.What))
				fmt.Printf("| %s | `%s` | %s | %.0f s |\n", m.What, m.File, by, time.Since(began).Seconds())
				if by.pkg == "" {
					t.Error("nobody has noticed: " + m.What)
				}
				must.OK(t, r.add(m.What, by))
			})
		}
	})
	fmt.Printf("%d of %d noticed, %d not there\n", r.noticed, r.made, r.absent)
}

// table is where this checkout's results are.
const table = "noticed.txt"

// row is who noticed a mistake: a package and a test, which is empty if the tests ended without a name.
type row struct{ pkg, test string }

func (r row) String() string { return strings.TrimSpace(r.pkg + " " + r.test) }

// readRows reads a table: a line for each mistake, with a tab before who noticed.
func readRows(path string) (map[string]row, error) {
	text, err := os.ReadFile(path)
	rows := make(map[string]row)
	for line := range strings.Lines(string(text)) {
		what, by, _ := strings.Cut(strings.TrimSpace(line), "\t")
		pkg, test, _ := strings.Cut(by, " ")
		rows[what] = row{pkg, test}
	}
	return rows, err
}

// results are those of a run.
type results struct {
	mine bool // they are of this checkout

	mu                    sync.Mutex
	rows                  map[string]row // guarded by mu, as are the numbers
	made, noticed, absent int
}

// row returns who noticed a mistake before.
func (r *results) row(what string) row {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rows[what]
}

// skip counts a mistake that cannot be made.
func (r *results) skip() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.absent++
}

// add counts a result, and writes it down.
func (r *results) add(what string, by row) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made++
	if by.pkg != "" {
		r.noticed++
	}
	if !r.mine {
		return nil
	}
	if r.rows[what] = by; by.pkg == "" {
		delete(r.rows, what)
	}
	var text strings.Builder
	for _, m := range All() {
		if by, ok := r.rows[m.What]; ok {
			fmt.Fprintf(&text, "%s\t%s\n", m.What, by)
		}
	}
	return os.WriteFile(table, []byte(text.String()), 0o600)
}
