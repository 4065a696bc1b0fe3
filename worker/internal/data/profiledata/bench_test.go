package profiledata_test

import (
	"fmt"
	"math/rand"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// processors returns the CPU time that this process has used. On a busy machine it is
// more meaningful than elapsed time.
func processors() time.Duration {
	var used unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func reportProcessors(b *testing.B, since time.Duration) {
	b.ReportMetric(float64((processors()-since).Milliseconds())/float64(b.N), "cpu-ms/op")
}

// typicalTree creates a directory like that of a used profile: 30 MB in 300 files,
// about half of it compressible.
func typicalTree(b *testing.B) *os.Root {
	b.Helper()
	root, random := emptyRoot(b), rand.New(rand.NewSource(1))
	if err := root.Mkdir("Default", 0o700); err != nil {
		b.Fatal(err)
	}
	for i := range 300 {
		text := make([]byte, 100_000)
		for offset := 0; offset < len(text); {
			if random.Intn(2) == 0 {
				offset += copy(text[offset:], fmt.Sprintf(`{"origin":"https://site-%d.example/","last_used":%d,"setting":1},`, random.Intn(1000), random.Int63()))
			} else {
				n := min(len(text)-offset, 64)
				random.Read(text[offset : offset+n])
				offset += n
			}
		}
		if err := root.WriteFile(fmt.Sprintf("Default/f%03d", i), text, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return root
}

func BenchmarkSave(b *testing.B) {
	r, root := newFixture(b), typicalTree(b)
	c := r.claim(b)
	if err := c.Restore(b.Context(), emptyRoot(b)); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(30_000_000)
	b.ReportAllocs()
	began := processors()
	for i := 0; b.Loop(); i++ {
		if err := root.WriteFile("number", fmt.Append(nil, i), 0o600); err != nil {
			b.Fatal(err)
		}
		if err := c.Save(b.Context(), root); err != nil {
			b.Fatal(err)
		}
	}
	reportProcessors(b, began)
	if found, err := r.Versions(b.Context(), profileID); err == nil {
		b.ReportMetric(float64(found[0].Size)/1e6, "MB/version")
	}
}

func BenchmarkRestore(b *testing.B) {
	r := newFixture(b)
	c := r.claim(b)
	if err := c.Restore(b.Context(), emptyRoot(b)); err != nil {
		b.Fatal(err)
	}
	if err := c.Save(b.Context(), typicalTree(b)); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(30_000_000)
	b.ReportAllocs()
	began := processors()
	for b.Loop() {
		b.StopTimer()
		root := emptyRoot(b)
		b.StartTimer()
		if err := c.Restore(b.Context(), root); err != nil {
			b.Fatal(err)
		}
	}
	reportProcessors(b, began)
}
