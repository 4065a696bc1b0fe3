package browser_test

import (
	"slices"
	"testing"

	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
)

// lettersAsBoxes draws texts and returns the names of those that look like U+0378, which is
// no letter.
const lettersAsBoxes = `(texts => {
	const draw = text => {
		const canvas = new OffscreenCanvas(60, 60).getContext('2d', {willReadFrequently: true});
		canvas.font = '40px serif';
		canvas.fillText(text, 5, 45);
		return canvas.getImageData(0, 0, 60, 60).data.join();
	};
	const box = draw('\u0378');
	if (box === draw(' ')) throw new Error('a missing letter is invisible');
	return Object.keys(texts).filter(name => draw(texts[name]) === box);
})({arabic: 'ش', bengali: 'ঋ', cyrillic: 'Ж', devanagari: 'ञ', emoji: '🦔', greek: 'Ω', han: '语', hangul: '한', hebrew: 'ש', kana: 'ゐ', tamil: 'ழ', thai: 'ฎ'})`

func TestMissingScripts_BrowserShowsLetters(t *testing.T) {
	r := newFixture(t)
	for _, build := range []builds.Build{r.build, headlessShell(t)} {
		r.build = build
		c := dial(t, r.launch(t, r.spec("letters-"+string(build.Engine))))
		page := c.open(t, "about:blank")
		var boxes []string
		if c.eval(t, page, lettersAsBoxes, &boxes); len(boxes) > 0 {
			t.Errorf("%s shows empty boxes instead of %v: scripts/need fonts", build.Engine, boxes)
		}
		var single, compound float64
		c.eval(t, page, `new OffscreenCanvas(1, 1).getContext('2d').measureText('👩').width`, &single)
		if c.eval(t, page, `new OffscreenCanvas(1, 1).getContext('2d').measureText('👩‍💻').width`, &compound); compound != single {
			t.Errorf("%s shows a compound emoji with a width of %v, want %v", build.Engine, compound, single)
		}
	}
	missing, err := browser.MissingScripts(t.Context())
	if err != nil || len(missing) > 0 {
		t.Errorf("missing scripts: %v %v", missing, err)
	}
}

func TestMissingScripts_NamesScriptsWithoutFont(t *testing.T) {
	// The character sets of two fonts, as fc-list prints them.
	got := browser.ScriptsWithout("20-7e a0-17f 370-3ff 400-52f\n41-5a 600-6ff 1f98a\n")
	want := []string{"bengali", "devanagari", "han", "hangul", "hebrew", "kana", "tamil", "thai"}
	if !slices.Equal(got, want) {
		t.Errorf("missing scripts: %v, want %v", got, want)
	}
	if got := browser.ScriptsWithout(""); len(got) != 12 {
		t.Errorf("without fonts: %v", got)
	}
}
