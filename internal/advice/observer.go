package advice

import "fmt"

// ObserverPanics is to be deferred. It recovers a panic of an observer, since an observer has no part
// in decisions and must not make requests fail.
func (l *Log) ObserverPanics(observer any) {
	if p := recover(); p != nil {
		l.say(Observer, fmt.Sprintf("the observer %T panics: %v", observer, p))
	}
}
