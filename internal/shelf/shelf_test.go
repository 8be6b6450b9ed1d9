package shelf_test

import (
	"testing"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/shelf"
	"github.com/weblimit/weblimit/internal/test/check"
)

type apples struct{ n int }

type pears struct{ n int }

func TestNumbersLieOnTheShelfOfTheirType(t *testing.T) {
	t.Parallel()
	var r store.Registry
	n := 1
	remove := shelf.Add(&r, func() apples { return apples{n} })
	shelf.Add(r.View(), func() apples { return apples{10} })
	shelf.Add(&r, func() pears { return pears{100} })
	n = 2
	check.Slices(t, "apples", shelf.All[apples](&r), []apples{{2}, {10}})
	check.Slices(t, "pears", shelf.All[pears](r.RegionsView()), []pears{{100}})
	remove()
	remove()
	check.Slices(t, "apples that are left", shelf.All[apples](&r), []apples{{10}})
	check.Slices(t, "another store's", shelf.All[apples](new(store.Registry)), nil)
}
