package store

import "fmt"

// Regions says how a limit counts on a store of several regions: see package regions. Its zero value is a leased limit
// without an overdraft. On other stores only the zero value is valid.
type Regions struct {
	Mode RegionMode

	// Overdraft is how many units each region may grant in a period beyond those that it has leased. 0 or more.
	Overdraft int64
}

// RegionMode is where a limit is decided on a store of several regions.
type RegionMode uint8

// The modes.
const (
	RegionsLeased RegionMode = iota // each region decides, within the units that it has leased
	RegionsEach                     // each region has the whole limit for itself
	RegionsHome                     // home decides each request
)

// String returns "leased", "each" or "home".
func (m RegionMode) String() string {
	switch m {
	case RegionsLeased:
		return "leased"
	case RegionsEach:
		return "each"
	case RegionsHome:
		return "home"
	}
	return "unknown mode"
}

// MarshalText returns the text of String, so that logs in JSON have words and no numbers.
func (m RegionMode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// inWords returns the settings for errors.
func (g Regions) inWords() string {
	switch {
	case g == Regions{}:
		return "none"
	case g.Overdraft > 0:
		return fmt.Sprintf("%v, overdraft %d", g.Mode, g.Overdraft)
	}
	return g.Mode.String()
}
