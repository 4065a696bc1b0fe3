// Zoom and pan of the picture on touch screens and in narrow windows. noVNC scales the picture to the size of
// its element, and the viewport around the element scrolls.

const maxZoom = 6; // times the size that fits
const step = 1.5;

const distance = ([a, b]) => Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
const middle = ([a, b]) => ({x: (a.clientX + b.clientX) / 2, y: (a.clientY + b.clientY) / 2});

export class Zoom {
  #viewport;
  #screen;
  #pan;
  #zoom = 1;
  #chosen = false; // a person chose the zoom

  constructor(viewport, screen, pan) {
    this.#viewport = viewport;
    this.#screen = screen;
    this.#pan = pan;
    this.#setUpPinch();
    new ResizeObserver(() => this.#chosen || this.fill()).observe(viewport);
  }

  // panning decides whether touches move the picture instead of reaching the browser.
  set panning(value) { this.#pan.hidden = !value; }

  in() { this.#choose(this.#zoom * step); }

  out() { this.#choose(this.#zoom / step); }

  // fill scales the picture so that it covers the viewport, but not beyond its original size.
  fill() {
    const {fit, cover} = this.#scales();
    this.#apply(Math.min(cover, Math.max(1, fit)) / fit);
  }

  // #scales returns the scales at which the picture fits into the viewport and covers it.
  #scales() {
    const canvas = this.#screen.querySelector('canvas');
    const wide = this.#viewport.clientWidth / (canvas?.width || 1), high = this.#viewport.clientHeight / (canvas?.height || 1);
    return {canvas, fit: Math.min(wide, high), cover: Math.max(wide, high)};
  }

  #choose(zoom, around) {
    this.#chosen = true;
    this.#apply(zoom, around);
  }

  // #apply keeps the point of the picture below around, or below the middle, in place.
  #apply(zoom, around) {
    const {canvas, fit} = this.#scales();
    if (!canvas) return;
    const {left, top, width, height} = this.#viewport.getBoundingClientRect();
    const x = (around?.x ?? left + width / 2) - left, y = (around?.y ?? top + height / 2) - top;
    const next = Math.min(Math.max(zoom, 1), maxZoom), ratio = next / this.#zoom;
    const to = {left: (this.#viewport.scrollLeft + x) * ratio - x, top: (this.#viewport.scrollTop + y) * ratio - y};
    this.#zoom = next;
    for (const {style} of [this.#screen, this.#pan]) {
      style.width = `max(100%, ${Math.floor(canvas.width * fit * next)}px)`;
      style.height = `max(100%, ${Math.floor(canvas.height * fit * next)}px)`;
    }
    this.#viewport.scrollTo(to);
  }

  #setUpPinch() {
    let from = null; // the distance and zoom at the start of a pinch
    const start = ({touches}) => { from = touches.length === 2 ? {distance: distance(touches), zoom: this.#zoom} : null; };
    this.#pan.addEventListener('touchstart', start, {passive: true});
    this.#pan.addEventListener('touchend', start, {passive: true});
    this.#pan.addEventListener('touchmove', (event) => {
      if (!from || event.touches.length !== 2) return;
      if (event.cancelable) event.preventDefault();
      this.#choose(from.zoom * distance(event.touches) / from.distance, middle(event.touches));
    }, {passive: false});
  }
}
