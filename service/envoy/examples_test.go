package envoy_test

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/service/envoy"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// The eleven configuration examples of envoyproxy/ratelimit's README, each file as it is there, and what
// the README says of it.
func TestExamples(t *testing.T) {
	t.Parallel()
	const none = "no limit" // the descriptor matches no rule
	type step struct {
		descriptors string // several by ";"
		times       int    // as often it is OK; then it is over, unless that is 0
		limit       string // of the descriptors, by ";"
	}
	for _, tt := range []struct {
		file, domain, says string
		steps              []step
	}{
		{"1.yaml", "mongo_cps", "two limits of 500 requests per second", []step{
			{"database=users", 500, "500 SECOND"},
			{"database=default", 500, "500 SECOND"},
			{"database=other", 0, none},
		}},
		{"2.yaml", "messaging", "5 marketing messages a day to each number", []step{
			{"message_type=marketing,to_number=2061111111", 5, "5 DAY"},
			{"message_type=marketing,to_number=2062222222", 5, "5 DAY"},
			{"message_type=news,to_number=2061111111", 0, none},
		}},
		{"2.yaml", "messaging", "100 messages a day to each number", []step{
			{"to_number=2061111111", 100, "100 DAY"},
			{"to_number=2062222222", 100, "100 DAY"},
		}},
		{"2.yaml", "messaging", "two descriptors: the logical or of their limits", []step{
			{"message_type=marketing,to_number=2061111111;to_number=2061111111", 5, "5 DAY;100 DAY"},
			{"to_number=2061111111", 95, "100 DAY"},
		}},
		{"3.yaml", "edge_proxy_per_ip", "key and value go before the key", []step{
			{"remote_address=50.0.0.1", 10, "10 SECOND"},
			{"remote_address=50.0.0.2", 10, "10 SECOND"},
			{"remote_address=50.0.0.5", -1, "0 SECOND"},
		}},
		{"4a.yaml", "example4", "a descriptor of two entries does not match a rule of one", []step{
			{"key=value,subkey=subvalue", 0, none},
			{"key=value", 300, "300 SECOND"},
		}},
		{"4b.yaml", "example4", "it matches a nested rule", []step{
			{"key=value,subkey=subvalue", 300, "300 SECOND"},
			{"key=value", 0, none},
		}},
		{"5.yaml", "internal", "unlimited", []step{
			{"ldap=x", 0, "unlimited"},
			{"azure=x", 100, "100 MINUTE"},
			{"other=x", 0, none},
		}},
		{"6.yaml", "example6", "shadow mode", []step{
			{"service=auth-service,user=user-a", 0, "10 SECOND"},
			{"service=auth-service,user=user-b", 20, "20 SECOND"},
		}},
		{"7.yaml", "example7", "the first limit alone", []step{
			{"key_1=value_1,user=bkthomps", 5, "5 SECOND"},
		}},
		{"7.yaml", "example7", "the second limit alone", []step{
			{"key_2=value_2,user=bkthomps", 10, "10 SECOND"},
		}},
		{"7.yaml", "example7", "the second replaces the first, whose limit is not affected", []step{
			{"key_1=value_1,user=bkthomps;key_2=value_2,user=bkthomps", 10, none + ";10 SECOND"},
			{"key_1=value_1,user=bkthomps", 5, "5 SECOND"},
		}},
		{"8.yaml", "example8", "a key without a value", []step{
			{"key1=unspecified_value", 10, "10 MINUTE"},
			{"key1=unspecified_value2", 10, "10 MINUTE"},
			{"key1=value1", 20, "20 MINUTE"},
		}},
		{"9.yaml", "example9", "a wildcard: each value has its own limit", []step{
			{"key1=value1", 20, "20 MINUTE"},
			{"key1=value2", 20, "20 MINUTE"},
			{"key1=other", 0, none},
		}},
		{"9b.yaml", "example9", "a wildcard in the middle", []step{
			{"path=/api/123/action", 20, "20 MINUTE"},
			{"path=/api/user-id/action", 20, "20 MINUTE"},
			{"path=/api/123/other", 0, none},
		}},
		{"9c.yaml", "example9", "several wildcards", []step{
			{"route=/api/v1/resource/123/action", 20, "20 MINUTE"},
			{"route=/api/v2/resource/456/action", 20, "20 MINUTE"},
			{"route=/api/v2/action", 0, none},
		}},
		{"10.yaml", "example10", "value_to_metric", []step{
			{"route=api,http_method=GET,subject_id=123", 60, "60 MINUTE"},
			{"route=web,http_method=POST,subject_id=456", 60, "60 MINUTE"},
		}},
		{"10b.yaml", "example10_wildcard", "value_to_metric with a wildcard", []step{
			{"user=alice,action=readfile,resource=documents", 100, "100 MINUTE"},
		}},
		{"11.yaml", "example11", "share_threshold", []step{
			{"files=files/a.pdf", -5, "10 HOUR"},
			{"files=files/b.csv", 5, "10 HOUR"},
			{"files=files/c.txt", -1, "10 HOUR"},
			{"files_no_share=files_no_share/a.pdf", 10, "10 HOUR"},
			{"files_no_share=files_no_share/b.csv", 10, "10 HOUR"},
		}},
		{"11b.yaml", "example11_metrics", "share_threshold with value_to_metric", []step{
			{"route=api/v1,method=GET", -30, "60 MINUTE"},
			{"route=api/v2,method=GET", 30, "60 MINUTE"},
			{"route=api/v1,method=POST", 60, "60 MINUTE"},
		}},
	} {
		t.Run(tt.file+" "+tt.says, func(t *testing.T) {
			t.Parallel()
			c := direct{newServer(t, envoy.Config{}, string(must.Get(os.ReadFile("testdata/examples/"+tt.file))(t)))}
			for _, step := range tt.steps {
				all := strings.Split(step.descriptors, ";")
				n, then := step.times, over
				switch {
				case step.times == -1: // never
					n = 0
				case step.times < 0: // so often, and not yet over
					n, then = -step.times-1, ok
				case step.times == 0: // always
					n, then = 1000, ok
				}
				for i := range n + 1 {
					want := ok
					if i == n {
						want = then
					}
					response := ask(t, c, request(tt.domain, all...))
					must.Equal(t, fmt.Sprintf("request %d with %s", i+1, step.descriptors), response.GetOverallCode(), want)
					for j, limit := range strings.Split(step.limit, ";") {
						must.Equal(t, all[j], limitOf(response.GetStatuses()[j]), limit)
					}
				}
			}
		})
	}
}

// limitOf returns the limit of a status: "10 SECOND".
func limitOf(s *rls.RateLimitResponse_DescriptorStatus) string {
	switch {
	case s.GetCurrentLimit() != nil:
		return fmt.Sprint(s.GetCurrentLimit().GetRequestsPerUnit(), " ", s.GetCurrentLimit().GetUnit())
	case s.GetLimitRemaining() == math.MaxUint32:
		return "unlimited"
	}
	return "no limit"
}
