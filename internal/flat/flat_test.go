package flat

import (
	"reflect"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// A field of Numbers that a codec forgets would be lost on the way to another process: a settlement would then
// be of another limit. Each field is set alone, and all of them together.
func TestNoNumberIsForgottenOnTheWay(t *testing.T) {
	t.Parallel()
	berlin := must.Get(time.LoadLocation("Europe/Berlin"))(t)
	var all store.Numbers
	fields := 0
	var visit func(v reflect.Value, path []int)
	visit = func(v reflect.Value, path []int) {
		at := v.FieldByIndex(path)
		if at.Kind() == reflect.Struct {
			for i := range at.NumField() {
				visit(v, append(path[:len(path):len(path)], i))
			}
			return
		}
		fields++
		var one store.Numbers
		for _, into := range []*store.Numbers{&one, &all} {
			switch field := reflect.ValueOf(into).Elem().FieldByIndex(path); {
			case field.CanInt():
				field.SetInt(int64(fields))
			case field.CanUint():
				field.SetUint(uint64(fields))
			case field.Kind() == reflect.Bool:
				field.SetBool(true)
			default:
				field.Set(reflect.ValueOf(berlin))
			}
		}
		flat := Of(&one)
		back := must.Get(flat.Numbers())(t)
		name := reflect.TypeFor[store.Numbers]().FieldByIndex(path).Name
		if back.Calendar.Location.String() != one.Calendar.Location.String() {
			t.Errorf("%s: %v came back as %v", name, one, back)
		}
		back.Calendar.Location, one.Calendar.Location = nil, nil // loaded anew
		check.Equal(t, name, back, one)
	}
	for i := range reflect.TypeFor[store.Numbers]().NumField() {
		visit(reflect.ValueOf(store.Numbers{}), []int{i})
	}
	flat := Of(&all)
	if want := len(flat.Values) + 2; fields != want { // a zone, and two truth values in one
		t.Errorf("Numbers have %d fields, and those that are flat %d", fields, want)
	}
	back := must.Get(flat.Numbers())(t)
	check.Equal(t, "all together", Of(&back), flat)
}

func TestFlatNumbersThatCanNotBe(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]Numbers{
		"an algorithm":        {Values: [Length]int64{0: 256}},
		"a negative one":      {Values: [Length]int64{0: -1}},
		"a unit":              {Values: [Length]int64{15: 1 << 40}},
		"a day":               {Values: [Length]int64{16: -1}},
		"another's own zone":  {Zone: "Local"},
		"a zone that is none": {Zone: "../etc/passwd"},
	} {
		if n, err := f.Numbers(); err == nil {
			t.Errorf("%s: %v", name, n)
		}
	}
}
