// Package prometheus counts what limiters decide, for Prometheus. It is usually imported as
// weblimitprom:
//
//	metrics, err := weblimitprom.New(weblimitprom.Config{})
//	if err != nil {
//		log.Fatal(err)
//	}
//	limits := ginlimit.With(core.Config{Store: store, Observe: metrics})
//	r.GET("/metrics", gin.WrapH(promhttp.Handler()))
//
// One [Observer] serves any number of limiters and stores. deploy/prometheus has alerts on its
// metrics, each with a link to what it means and what to do; deploy/grafana has a dashboard.
//
// # Metrics
//
// Names begin with Config.Namespace, by default weblimit.
//
//	decisions_total{limit,route,decision,reason}   each request once, for the limit that it is due to
//	limit_results_total{limit,route,result}        each request once for every limit that it met
//	class_results_total{limit,class,result}        the same by class, of limits with classes
//	share_results_total{limit,standing,result}     the same by how the client stood to its share, of limits that clients
//	                                               divide: within_share, over_share, of_minimum, user_over_share, over_maximum
//	near_limit_total{limit}                        allowed, and less than a fifth of the burst is left, or of the share
//	check_duration_seconds{limit}                  how long the store took
//	retry_after_seconds{limit}                     what denied clients were told to wait
//	wait_duration_seconds{limit}                   how long requests waited for their turn
//	waiting_requests                               requests that wait for their turn now
//	settlements_total{limit,kind}                  changes after the response, by kind:
//	settled_units_total{limit,kind}                refunded, charged, failed: perhaps not stored, or
//	                                               forgiven: not charged, since the client owes all of its debt
//	store_errors_total{class,node}                 decisions and settlements without an answer
//	breaker_open{node}                             1 while a node is not asked
//	breaker_opened_total{node}                     how often that began
//	outage_active                                  stores that do not answer
//	outages_total                                  outages that have ended, as the page of inspect counts them
//	slow_total                                     times that a store was only slow: see core.Event.Slow
//	fallback_active                                1 for ten seconds after a decision without the store
//	ledger_out                                     ledgers of quota.Book that do not answer
//	ledger_outages_total                           how often that began
//	ledger_accounts_waiting_total                  accounts beyond quota.Config.MaxAccounts, which wait in the store
//	ledger_accounts_forked_total                   accounts of which the store had lost what the ledger has
//	notices_failed_total{channel}                  attempts to deliver notices that failed
//	notices_dead_total                             notices that are not tried any more
//	exports_failed_total{export}                   increments of usage that a receiver did not accept
//	ledger_units_total{limit,result}               units of requests under limits of a quota.Book: granted, denied
//	ledger_accounts                                accounts that this process remembers
//	ledger_unwritten_accounts                      of these, those whose last change is not in the ledger yet
//	ledger_differences_total{cause}                accounts of which store and ledger were found to differ
//	notices_delivered_total{channel}               notices that this process has delivered
//	notices_pending{channel}                       notices that wait, the same for all processes
//	exports_sent_total{export}                     increments of usage that a receiver has accepted
//	exports_pending{export}                        increments that it does not have, the same for all processes
//	region_units_total{region,limit,kind}          units of limits over several regions: leased from home, spent,
//	                                               lost on the way, returned since clocks differ, told to home again
//	region_messages_total{region,limit}            questions to home
//	region_leases_failed_total{region,limit,reason}  leases that came to nothing: unanswered, or crowded
//	region_waited_total{region,limit}              requests that waited for home
//	region_denied_early_total{region,limit}        requests that were denied although home may have had units
//	region_keys{region}                            keys above the floor of their region
//	region_home_away{region}                       1 while home does not answer
//	region_home_trip_seconds{region}               how long a question to home took lately
//	policy_info{version}                           limiters that decide by this version of a configuration
//	policy_refused                                 limiters whose changed policy file was refused
//	limit_quota{limit}                             units per window of each configured limit, at most 1000 of them
//	limit_burst{limit}                             units that it lets be used at once
//	limit_window_seconds{limit}                    its window, if it has one of a fixed length
//	buckets                                        buckets in the memory of this process
//	top_denied_per_minute                          see Config.TopDenied
//	series_capped_total{limit}                     decisions counted with the route "other"
//
// The share of denied requests is computed from decisions_total, where each request is counted
// once. What a limit would deny if it were enforced is in limit_results_total: with the result
// would_be_denied, which only limits in shadow mode have. The result passed_over is that of a limit in
// [core.First] in whose place another one was charged, or would be. Requests that a limit of
// [core.Limit.Penalty] blocks have the reason blocked; how many clients are blocked is not a
// metric, since a store in Redis would have to be scanned for it.
//
// # Labels
//
// No label has a key, a token or an address of a client, a method or a path. The route is the
// template of the router, "" where none is known. The labels limit, decision, reason, result, standing, kind and
// class have few values. Config.MaxSeries bounds routes, in case that an application registers
// routes for what clients send; 1000 limits, 256 nodes and 256 channels and
// exports are the most.
//
// # Histograms
//
// The three histograms have classic and native buckets. Prometheus takes the native ones if it
// is set up to, and then needs always_scrape_classic_histograms for the queries in deploy/, which
// use the classic ones.
//
// # Cost
//
// A decision in memory takes some 145 ns longer than without an observer, and no allocation. 100 ns of
// that are what any observer costs, most of it two looks at the clock; BenchmarkObserver measures
// both. Config.TraceID adds 5 ns. Once a second for each series, it adds its own time and an
// allocation for the exemplar.
package prometheus
