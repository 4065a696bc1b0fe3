package warm

import (
	"testing"
	"time"
)

func TestStockFor(t *testing.T) {
	for _, tc := range []struct {
		perMinute float64
		start     time.Duration
		want      int
	}{
		{0, time.Second, 1},
		{1, 200 * time.Millisecond, 1},      // one launch in 300 comes during a start
		{60, 200 * time.Millisecond, 2},     // 0.2 arrive during a start: 18 % would miss a stock of 1, 1.8 % one of 2
		{150, 400 * time.Millisecond, 4},    // 1 arrives; 1.9 % would miss
		{300, 400 * time.Millisecond, 6},    // 2 arrive; 1.7 % would miss
		{6000, 500 * time.Millisecond, 66},  // 50 arrive, with a standard deviation of 7
		{60000, 10 * time.Second, maxStock}, // never more
	} {
		if got := stockFor(tc.perMinute / 60 * tc.start.Seconds()); got != tc.want {
			t.Errorf("stock for %v a minute and starts of %v: %d, want %d", tc.perMinute, tc.start, got, tc.want)
		}
	}
}
