package top

import "slices"

const (
	maxVersions     = 8   // of a limit, or an instance, in a snapshot
	maxVersionBytes = 128 // of one
	keptVersions    = 8   // that denials are remembered by
)

// versions numbers the versions that decided, so that a denial has a number for its version and no
// pointer. The zero value is ready to use: its version is "".
type versions struct {
	last string // that decides
	at   uint32 // its number
	n    uint32 // the highest number
	ring [keptVersions]string
}

// decides notes the version that decides now.
func (v *versions) decides(version string) { v.last, v.at = version, v.number(version) }

// number returns the number of a version, which is a new one unless it is known.
func (v *versions) number(version string) uint32 {
	for i := range min(v.n+1, keptVersions) {
		if v.ring[(v.n-i)%keptVersions] == version {
			return v.n - i
		}
	}
	v.n++
	v.ring[v.n%keptVersions] = version
	return v.n
}

// of returns the version of a number, or "" if there were many others since.
func (v *versions) of(n uint32) string {
	if v.n-n >= keptVersions {
		return ""
	}
	return printableVersion(v.ring[n%keptVersions])
}

// printableVersion returns a version as it may be published: it can come from the application.
func printableVersion(version string) string {
	return printable(version[:min(len(version), maxVersionBytes)])
}

// mergeVersions returns the versions of both lists, in order.
func mergeVersions(a, b []string) []string {
	for _, version := range b {
		version = printableVersion(version)
		at, known := slices.BinarySearch(a, version)
		if version != "" && !known && len(a) < maxVersions {
			a = slices.Insert(slices.Clip(a), at, version)
		}
	}
	return a
}
