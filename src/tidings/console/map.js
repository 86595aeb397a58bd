// The network map: an SVG that Vue keeps up to date. Every broker is a button that keyboard and screen reader reach.
export default {
  template: `
    <div :class="['tidings-map', nodes.length > 40 ? 'many' : '']">
      <svg :viewBox="view" role="group" aria-label="Map of the broker network" preserveAspectRatio="xMidYMid meet">
        <g v-for="link in drawn" :key="link.key" :class="['link', 'load-' + link.level, link.state, link.lit ? 'lit' : '']"
           tabindex="0" role="button" :aria-label="link.title"
           @click="$emit('link', link.key)" @keydown.enter="$emit('link', link.key)" @keydown.space.prevent="$emit('link', link.key)">
          <title>{{ link.title }}</title>
          <line class="reach" :x1="link.x1" :y1="link.y1" :x2="link.x2" :y2="link.y2" />
          <line class="line" :x1="link.x1" :y1="link.y1" :x2="link.x2" :y2="link.y2" />
          <circle v-if="link.arrow" class="arrow" r="4" :cx="link.arrow.x" :cy="link.arrow.y" />
        </g>
        <g v-for="node in nodes" :key="node.id" :transform="'translate(' + at(node).x + ' ' + at(node).y + ')'"
           :class="['node', 'use-' + node.level, node.state, node.lit ? 'lit' : '', node.id === selected ? 'selected' : '']"
           :data-broker="node.id" tabindex="0" role="button" :aria-label="node.title" :aria-pressed="node.id === selected"
           @click="$emit('node', node.id)" @keydown.enter="$emit('node', node.id)" @keydown.space.prevent="$emit('node', node.id)">
          <title>{{ node.title }}</title>
          <circle class="halo" :r="radius + 5" />
          <circle class="body" :r="radius" />
          <text v-if="radius > 9" class="number" dy="0.35em" text-anchor="middle">{{ node.id }}</text>
          <text v-if="labels" class="name" :y="radius + 14" text-anchor="middle">{{ node.name }}</text>
          <text v-if="node.note" class="note" :y="-radius - 6" text-anchor="middle">{{ node.note }}</text>
        </g>
      </svg>
    </div>`,
  props: { nodes: Array, links: Array, selected: Number },
  data() {
    return { width: 800, height: 480 };
  },
  mounted() {
    this.observer = new ResizeObserver(([entry]) => {
      this.width = Math.max(280, entry.contentRect.width);
      this.height = Math.max(260, entry.contentRect.height);
    });
    this.observer.observe(this.$el);
  },
  unmounted() {
    this.observer.disconnect();
  },
  computed: {
    view() {
      return `0 0 ${this.width} ${this.height}`;
    },
    radius() {
      const count = this.nodes.length;
      return count > 60 ? 7 : count > 25 ? 10 : this.width < 500 ? 13 : 17;
    },
    labels() {
      return this.nodes.length <= 40;
    },
    drawn() {
      const places = Object.fromEntries(this.nodes.map((node) => [node.id, this.at(node)]));
      return this.links
        .filter((link) => link.a in places && link.b in places)
        .map((link) => {
          const from = places[link.a], to = places[link.b];
          const arrow = link.lit ? { x: from.x + (to.x - from.x) * 0.6, y: from.y + (to.y - from.y) * 0.6 } : null;
          return { ...link, x1: from.x, y1: from.y, x2: to.x, y2: to.y, arrow };
        });
    },
  },
  methods: {
    at(node) {
      const margin = 46;
      return { x: margin + node.x * (this.width - 2 * margin), y: margin + node.y * (this.height - 2 * margin) };
    },
  },
};
