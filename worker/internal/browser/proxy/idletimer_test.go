package proxy

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestIdleTimer_FiresAfterTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		barked := make(chan time.Duration, 1)
		begin := time.Now()
		w := newIdleTimer(time.Hour, func() { barked <- time.Since(begin) })
		defer w.stop()
		for range 3 { // each reset adds an hour
			time.Sleep(50 * time.Minute)
			w.reset()
		}
		w.setTimeout(2 * time.Minute)
		time.Sleep(time.Minute)
		w.reset()
		if got, want := <-barked, 153*time.Minute; got != want {
			t.Errorf("the timer fired after %v, want %v", got, want)
		}
	})
}

func TestIdleTimer_StoppedTimerDoesNotFire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newIdleTimer(time.Minute, func() { t.Error("the timer fired") })
		w.stop()
		time.Sleep(time.Hour)
	})
}
