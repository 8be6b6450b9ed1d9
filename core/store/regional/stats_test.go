package regional_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/regional"
	"github.com/weblimit/weblimit/internal/test/check"
)

// Each field of Counts is added up.
func TestSums(t *testing.T) {
	t.Parallel()
	var one, two regional.Counts
	for i := range reflect.TypeFor[regional.Counts]().NumField() {
		reflect.ValueOf(&one).Elem().Field(i).SetInt(int64(i + 1))
		reflect.ValueOf(&two).Elem().Field(i).SetInt(int64(2 * (i + 1)))
	}
	began := time.Unix(1000, 0)
	of := func(region string, counts regional.Counts, home regional.Home) regional.Stats {
		return regional.Stats{Region: region, Counts: counts, Limits: map[string]regional.Counts{"user": counts}, Keys: 3, Home: home}
	}
	var registry store.Registry
	for _, s := range []regional.Stats{
		of("us", one, regional.Home{Trip: time.Second}),
		of("eu", one, regional.Home{Trip: time.Second}),
		of("us", one, regional.Home{Away: began, Class: store.ClassTimeout}),
		of("eu", regional.Counts{}, regional.Home{}),
		of("us", regional.Counts{}, regional.Home{Away: began.Add(time.Hour), Class: store.ClassConnection}),
	} {
		regional.Add(&registry, func() regional.Stats { return s })
	}
	sums := regional.Sum(regional.All(&registry))
	want := []regional.Stats{of("eu", one, regional.Home{Trip: time.Second}), of("us", two, regional.Home{Trip: time.Second, Away: began, Class: store.ClassTimeout})}
	want[0].Keys, want[1].Keys = 6, 9
	if !reflect.DeepEqual(sums, want) {
		t.Errorf("got %+v, want %+v", sums, want)
	}
	check.Equal(t, "regions of another store", len(regional.Sum(regional.All(new(store.Registry)))), 0)
}
