package releases

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// version is info.version: major, minor, patch.
type version struct{ major, minor, patch int }

func (v version) String() string { return fmt.Sprintf("%d.%d.%d", v.major, v.minor, v.patch) }

func (v version) compare(other version) int {
	return cmp.Or(cmp.Compare(v.major, other.major), cmp.Compare(v.minor, other.minor), cmp.Compare(v.patch, other.patch))
}

func parseVersion(text string) (version, error) {
	parts := strings.Split(text, ".")
	var numbers [3]int
	if len(parts) != len(numbers) {
		return version{}, fmt.Errorf("the version %q is not of the form 1.2.3", text)
	}
	for i, part := range parts {
		number, err := strconv.Atoi(part)
		if err != nil || number < 0 || strconv.Itoa(number) != part {
			return version{}, fmt.Errorf("the version %q is not of the form 1.2.3", text)
		}
		numbers[i] = number
	}
	return version{numbers[0], numbers[1], numbers[2]}, nil
}
