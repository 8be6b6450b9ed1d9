package prometheus

import "github.com/prometheus/client_golang/prometheus"

// metrics are the names, labels and help of all metrics, and those whose values client_golang keeps.
type metrics struct {
	kept   []prometheus.Collector // those whose values client_golang keeps
	others []*prometheus.Desc     // those whose values this package tells when it is asked

	decisions      *prometheus.CounterVec
	results        *prometheus.CounterVec
	classes        *prometheus.CounterVec
	shares         *prometheus.CounterVec
	near           *prometheus.CounterVec
	capped         *prometheus.CounterVec
	errors         *prometheus.CounterVec
	breakerOpened  *prometheus.CounterVec
	outages        prometheus.Counter
	slow           prometheus.Counter
	ledgerOutages  prometheus.Counter
	accountsWait   prometheus.Counter
	accountsForked prometheus.Counter
	noticesFailed  *prometheus.CounterVec
	noticesDead    prometheus.Counter
	exportsFailed  *prometheus.CounterVec
	settlements    *prometheus.CounterVec
	settledUnits   *prometheus.CounterVec
	check          *prometheus.Desc
	retryAfter     *prometheus.Desc
	wait           *prometheus.Desc
	breakerOpen    *prometheus.Desc
	outageActive   *prometheus.Desc
	fallbackActive *prometheus.Desc
	ledgerOut      *prometheus.Desc
	books          bookMetrics
	regions        regionMetrics
	buckets        *prometheus.Desc
	limitQuota     *prometheus.Desc
	limitBurst     *prometheus.Desc
	limitWindow    *prometheus.Desc
	waiting        *prometheus.Desc
	policyInfo     *prometheus.Desc
	policyRefused  *prometheus.Desc
	topDenied      *prometheus.Desc
}

func newMetrics(namespace string, labels prometheus.Labels) metrics {
	var kept []prometheus.Collector
	var others []*prometheus.Desc
	counter := func(name, help string, by ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help, ConstLabels: labels}, by)
		kept = append(kept, c)
		return c
	}
	other := func(name, help string, by ...string) *prometheus.Desc {
		d := prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, by, labels)
		others = append(others, d)
		return d
	}
	m := metrics{
		decisions:      counter("decisions_total", "Decisions, by the limit that each is due to.", "limit", "route", "decision", "reason"),
		results:        counter("limit_results_total", "What each limit said to each request that it applied to. Limits in shadow mode say would_be_denied.", "limit", "route", "result"),
		classes:        counter("class_results_total", "What limits with classes said to the requests of each.", "limit", "class", "result"),
		shares:         counter("share_results_total", "What limits that clients divide said to requests, by how the client stood to its share.", "limit", "standing", "result"),
		near:           counter("near_limit_total", "Requests that a limit allowed and that left a client less than a fifth of the burst.", "limit"),
		capped:         counter("series_capped_total", "Decisions that were counted with the route other, since the limit has too many label sets.", "limit"),
		errors:         counter("store_errors_total", "Decisions and settlements that the store did not answer.", "class", "node"),
		breakerOpened:  counter("breaker_opened_total", "How often the circuit breaker of a node has opened.", "node"),
		outages:        counter("outages_total", "Outages of stores that have ended, without the few time-outs that slow_total counts.").WithLabelValues(),
		slow:           counter("slow_total", "Times that a store was slow and not out: ten decisions or fewer timed out, and then it answered again.").WithLabelValues(),
		ledgerOutages:  counter("ledger_outages_total", "Outages of ledgers of quota.Book that have begun.").WithLabelValues(),
		accountsWait:   counter("ledger_accounts_waiting_total", "Accounts that this process could not remember, so that what they used waits in the store.").WithLabelValues(),
		accountsForked: counter("ledger_accounts_forked_total", "Accounts of which the store had lost what the ledger has.").WithLabelValues(),
		noticesFailed:  counter("notices_failed_total", "Attempts to deliver notices of a quota.Book that failed.", "channel"),
		noticesDead:    counter("notices_dead_total", "Notices of a quota.Book that are not tried any more.").WithLabelValues(),
		exportsFailed:  counter("exports_failed_total", "Increments of usage of a quota.Book that a receiver did not accept.", "export"),
		settlements:    counter("settlements_total", "Changes to what allowed requests were charged.", "limit", "kind"),
		settledUnits:   counter("settled_units_total", "Units that were given back or charged after the response.", "limit", "kind"),
		check:          other("check_duration_seconds", "How long the store took to decide a request, by the limit that the decision is due to.", "limit"),
		retryAfter:     other("retry_after_seconds", "How long denied requests were told to wait.", "limit"),
		wait:           other("wait_duration_seconds", "How long requests waited for their turn.", "limit"),
		breakerOpen:    other("breaker_open", "Whether the circuit breaker of a node is open. Nodes that nobody has asked for ten minutes are left out.", "node"),
		outageActive:   other("outage_active", "Stores that do not answer. It changes with decisions only."),
		ledgerOut:      other("ledger_out", "Ledgers of quota.Book that do not answer."),
		fallbackActive: other("fallback_active", "Whether a decision was made without the store in the last ten seconds."),
		buckets:        other("buckets", "Buckets in the memory of this process."),
		limitQuota:     other("limit_quota", "The units per window of each configured limit, without tiers.", "limit"),
		limitBurst:     other("limit_burst", "The units that can be used at once of each configured limit, without tiers.", "limit"),
		limitWindow:    other("limit_window_seconds", "The window of each configured limit. Periods of the calendar and concurrent requests have none.", "limit"),
		waiting:        other("waiting_requests", "Requests that wait for their turn."),
		policyInfo:     other("policy_info", "Versions of configurations that decide now, such as those of policy files, by how many limiters have them.", "version"),
		policyRefused:  other("policy_refused", "Limiters whose policy file has changed, and whose change was refused or can't be read: the version of before decides."),
		books:          newBookMetrics(other),
		regions:        newRegionMetrics(other),
		topDenied:      other("top_denied_per_minute", "Denials of the client that was denied most in the last minute."),
	}
	m.kept, m.others = kept, others
	return m
}
