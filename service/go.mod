module github.com/weblimit/weblimit/service

go 1.25.0

require github.com/weblimit/weblimit v0.0.0

replace github.com/weblimit/weblimit => ../
