"use strict";
// Chooses which probabilities are laid over the pictures, and how strongly.
(() => {
  const layer = document.getElementById("layer");
  const strength = document.getElementById("strength");
  const images = [...document.querySelectorAll("img.layer")];
  function update() {
    for (const image of images) {
      image.hidden = image.dataset.layer !== layer.value;
      image.style.opacity = strength.value / 100;
    }
  }
  layer.selectedIndex = Math.min(1, layer.length - 1);
  layer.addEventListener("change", update);
  strength.addEventListener("input", update);
  update();
})();
