package core

import (
	"errors"
	"fmt"
	"strings"
)

// setting is a setting of a limit that a decorator makes. Each is made once at most: of two, the first would do
// nothing, and nobody would know. [Limit.Named] renames, [Limit.When] and [Limit.Unless] add up, and
// [Limit.Jitter], [Limit.FromFirstUse], [Limit.Shadow] and [Limit.Hidden] mean the same when repeated, so these are no settings.
type setting uint32

const (
	setBy setting = 1 << iota
	setBurst
	setCost
	setCostBy
	setEstimate
	setEstimateBy
	setLease
	setLeaky
	setWait
	setMissing
	setOnce
	setRepeats
	setOutage
	setOverdraft
	setPenalty
	setRefund
	setRegions
	setKeepFree
	setScale
	setSlow
	setSoft
	setSpill
	setTiers
	setWarn
	setUpToBurst
	setStatus
	setDebt
	setClasses
	setFair
)

// settingNames are the decorators, in the order of the bits.
var settingNames = [...]string{
	"By", "Burst", "Cost", "CostBy", "Estimate", "EstimateBy", "Lease", "LeakyBucket", "Wait", "OnMissingKey", "OncePer",
	"Repeats", "OnOutage", "Overdraft", "Penalty", "RefundOn", "Regions", "KeepFree", "Scale", "SlowDown", "Soft", "SpillOver", "Tiers", "WarnAt", "UpToBurst", "Status", "Debt", "Classes", "Fair",
}

// inText are the settings that the text of a limit makes.
const inText = setBurst | setDebt | setLease | setLeaky | setWait | setSoft

// names returns the decorators of a set.
func (s setting) names() string {
	var names []string
	for i, name := range settingNames {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// settings are which settings were made, which of them again, and which without a function.
type settings struct{ made, again, without setting }

// set notes a setting.
func (s *settings) set(what setting) {
	s.again |= s.made & what
	s.made |= what
}

// has reports whether one of these settings was made.
func (s *settings) has(which setting) bool { return s.made&which != 0 }

// setTo notes a setting that is a function, which may be missing.
func (s *settings) setTo(what setting, isNil bool) {
	s.set(what)
	if isNil {
		s.without |= what
	}
}

// exclusive are settings that do the same in two ways.
var exclusive = []struct {
	both setting
	err  error
}{
	{setCost | setCostBy, errors.New("a limit has either Cost or CostBy, got both; have the function of CostBy return the cost")},
	{setEstimate | setEstimateBy, errors.New("a limit has either Estimate or EstimateBy, got both; have the function of EstimateBy return the estimate")},
	{setKeepFree | setClasses, errors.New("a limit has either KeepFree or Classes, got both; KeepFree is Classes of two")},
	{setLeaky | setWait, errors.New("a leaky bucket has its longest wait already: LeakyBucket(maxDelay), without Wait")},
}

func (s *settings) validate() error {
	switch {
	case s.again == setBy:
		return errors.New("By is there twice, and the first would do nothing; By(a, b) counts each combination, and two limits count both")
	case s.again == setRefund:
		return errors.New("RefundOn is there twice, and the first would do nothing; have one function answer for both")
	case s.again != 0:
		return fmt.Errorf("%s: there twice, and the first would do nothing", s.again.names())
	case s.without != 0:
		return fmt.Errorf("%s: the function is nil, which would do nothing", s.without.names())
	}
	for _, pair := range exclusive {
		if s.made&pair.both == pair.both {
			return pair.err
		}
	}
	return nil
}
