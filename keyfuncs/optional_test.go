package keyfuncs_test

import (
	"context"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// What wraps a request by embedding it has the parameters of it, also where the request is of no adapter.
func TestWrappersOfValuesHaveParams(t *testing.T) {
	t.Parallel()
	values := keyfuncs.Values{"id": "7"}
	for name, r := range map[string]keyfuncs.Request{
		"values":              values,
		"values in a context": values.WithContext(context.Background()),
		"the key of a string": keyfuncs.Values{"id": "7", "{}": "no request"},
	} {
		wrapped := struct{ keyfuncs.Request }{r}
		check.Equal(t, name, keyfuncs.ParamOf(r, "id"), "7")
		check.Equal(t, name+", wrapped", keyfuncs.ParamOf(wrapped, "id"), "7")
		check.Equal(t, name+", unwrapped", keyfuncs.Unwrap(wrapped).Context(), r.Context())
	}
}

// Decisions for a key have no request, which observers may ask for its parameters all the same.
func TestNoRequestHasNoParams(t *testing.T) {
	t.Parallel()
	check.Equal(t, "a parameter", keyfuncs.ParamOf(nil, "id"), "")
	_, ok := keyfuncs.As[keyfuncs.Params](nil)
	check.Equal(t, "parameters", ok, false)
	check.Equal(t, "no request", keyfuncs.Unwrap(nil) == nil, true)
}
