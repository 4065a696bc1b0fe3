package billing

import (
	"math/bits"
	"time"
)

// Period is the last paid period. All periods begin on the anchor's day of the
// month, or on the last day of a shorter month.
type Period struct {
	Anchor time.Time
	Start  time.Time
	End    time.Time
}

// monthsOf is the number of months per plan interval.
var monthsOf = map[string]int{"month": 1, "year": 12}

// firstPeriod returns the period that begins now.
func firstPeriod(now time.Time, interval string) Period {
	return Period{Anchor: now, Start: now, End: addMonths(now, monthsOf[interval])}
}

// next returns the following period.
func (p Period) next(interval string) Period {
	step := monthsOf[interval]
	passed := (p.End.Year()-p.Anchor.Year())*12 + int(p.End.Month()-p.Anchor.Month())
	return Period{Anchor: p.Anchor, Start: p.End, End: addMonths(p.Anchor, passed+step)}
}

// prorate returns the part of a price for the remainder of the period, by the
// second, rounded half up.
func (p Period) prorate(cents int64, now time.Time) int64 {
	total := p.End.Unix() - p.Start.Unix()
	rest := min(max(p.End.Unix()-now.Unix(), 0), total)
	if total <= 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(cents), uint64(rest))
	low, carry := bits.Add64(low, uint64(total)/2, 0)
	quotient, _ := bits.Div64(high+carry, low, uint64(total))
	return int64(quotient)
}

// addMonths adds months to a time, clamped to the last day of a shorter month.
func addMonths(t time.Time, months int) time.Time {
	later := t.AddDate(0, months, 0)
	if later.Day() != t.Day() { // the day does not exist in that month
		later = later.AddDate(0, 0, -later.Day())
	}
	return later
}
