module github.com/weblimit/weblimit/llmlimit

go 1.25.0

require github.com/weblimit/weblimit v0.0.0

require github.com/felixge/httpsnoop v1.0.4 // indirect

replace github.com/weblimit/weblimit => ../
