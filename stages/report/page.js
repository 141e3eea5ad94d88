"use strict";
(() => {
  const form = document.querySelector(".filters");
  if (!form) return;
  const cards = [...document.querySelectorAll(".gallery figure")];
  const selects = [...form.querySelectorAll("select:not([name=colors])")];
  const colors = form.querySelector("select[name=colors]");
  const gallery = document.querySelector(".gallery");
  const count = document.getElementById("shown");
  const fits = (card, but) =>
    selects.every((s) => s === but || !s.value || card.dataset[s.name] === s.value);

  function update() {
    let shown = 0;
    for (const card of cards) {
      card.hidden = !fits(card, null);
      if (!card.hidden) shown += 1;
    }
    // Disable options that would hide all drawings.
    for (const select of selects) {
      const left = new Set(cards.filter((c) => fits(c, select)).map((c) => c.dataset[select.name]));
      for (const option of select.options) option.disabled = option.value !== "" && !left.has(option.value);
    }
    if (colors) {
      gallery.classList.toggle("by-env", colors.value === "env");
      gallery.classList.toggle("by-label", colors.value !== "env");
      for (const key of document.querySelectorAll("[data-colors]")) key.hidden = key.dataset.colors !== colors.value;
    }
    count.textContent = `${shown} of ${cards.length} drawings`;
  }

  form.addEventListener("change", update);
  form.addEventListener("reset", () => setTimeout(update));
  update();
})();
