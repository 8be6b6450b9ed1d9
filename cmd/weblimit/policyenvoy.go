package main

import (
	"errors"
	"slices"

	"github.com/weblimit/weblimit/policy"
)

// Files of Envoy's rate limit service are in archives, too: weblimitd publish, which knows them, puts them there. What
// is the same for all files, the log, going back and reading one, this command does for them; it does not judge them.

// isOfEnvoy reports whether a file is one of Envoy's and not of policies, by what is wrong with it as policies.
func isOfEnvoy(file policy.File) bool {
	_, err := parsed(file)
	return isEnvoys(err)
}

func isEnvoys(err error) bool {
	var wrong *policy.Error
	return errors.As(err, &wrong) && slices.ContainsFunc(wrong.Problems, func(p policy.Problem) bool { return p.Path == "domain" })
}

// parsed reads a file as each process of a fleet does, without its secrets.
func parsed(file policy.File) (*policy.Set, error) {
	return policy.Parse(file.Name, file.Text, policy.Options{AnyName: true, WithoutSecrets: true})
}

// uncheckedEnvoy is Validate of a file of Envoy that was published before, and so was checked then.
func uncheckedEnvoy(policy.File) error { return nil }
